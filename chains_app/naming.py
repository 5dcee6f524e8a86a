"""Names of the requests and datasets of a chain. Pure: known before anything is created.

The number of the chain is part of every name, so names of different templates and chains never coincide.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from wms2_project.grammar import Name, check

_MAX_LABEL = 100  # of template, step and index together
_MAX_ERA = 60
LOG_TIER = "LOG"
DEFAULT_TIER = "USER"


@dataclass(frozen=True, slots=True)
class CallName:
    """Identity of a call of a step: chain, path of the step, place in the scatters, and try."""

    template: str
    chain: int
    step: str
    index: tuple[int, ...] = ()
    tries: int = 1

    @property
    def label(self) -> str:
        """The part that all names of the call have in common."""
        words = f"{self.template}_{self.step}"
        clean = re.sub(r"[^A-Za-z0-9_]", "_", words)
        if clean != words.replace("/", "_") or "_" in self.step or len(clean) > _MAX_LABEL:
            # other steps may have the same cleaned name: the digest tells them apart
            clean = f"{clean[:_MAX_LABEL]}_{hashlib.sha256(words.encode()).hexdigest()[:6]}"
        place = "".join(f"_{one}" for one in self.index)
        again = f"_r{self.tries}" if self.tries > 1 else ""
        return f"{clean}_c{self.chain}{place}{again}"


def request_name(call: CallName) -> str:
    """Return the name of the request of a call."""
    return check(Name.REQUEST, call.label, field="request_name")


def dataset_name(call: CallName, *, like: str, tier: str = "", port: str = "") -> str:
    """Return the name of an output: primary dataset and era of the input `like`, and the call's label.

    `port` distinguishes the outputs of a step that writes several.
    """
    _, primary, processed, input_tier = (like or f"/{call.template}/Chain-v1/{DEFAULT_TIER}").split("/")
    era = re.sub(r"[^A-Za-z0-9_]", "_", processed.partition("-")[0])[:_MAX_ERA]
    suffix = "_" + re.sub(r"[^A-Za-z0-9_]", "_", port) if port else ""
    return check(
        Name.DATASET, f"/{primary}/{era}-{call.label}{suffix}-v1/{tier or input_tier}", field="dataset"
    )


def log_dataset_name(output: str) -> str:
    """Return the name of the log dataset beside an output."""
    return output.rpartition("/")[0] + f"/{LOG_TIER}"
