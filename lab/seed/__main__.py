"""`python -m lab.seed --url URL --storage-prefix '/path/storage/{site}'` fills a lab and prints its requests.

May be repeated: the same suffix gives the same files, entries and requests.
"""

from __future__ import annotations

import argparse
import json
import re
from typing import Any

from lab.seed.cmssw import seed_cmssw
from lab.seed.datasets import electron_dataset, muon_dataset
from lab.seed.documents import monte_carlo, rereco, urgent
from lab.seed.formats import FORMATS, ROOT_DEMO, TOY, Format
from lab.seed.storage import Laboratory, Storage, store_dataset

CMSSW = "cmssw"
DESTINATION = {"name": "lab_miniaod", "pattern": "^/.*/MINIAOD(SIM)?$", "rse_expression": "T2_DE_DESY"}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.seed", description=__doc__)
    parser.add_argument("--url", required=True, help="URL of the simulated CMS services")
    parser.add_argument(
        "--storage-prefix", type=_prefix, required=True, help="directory that contains {site}"
    )
    parser.add_argument(
        "--suffix", type=_suffix, default="", help="letters and digits that make the names unique"
    )
    parser.add_argument(
        "--payload", choices=[*sorted(FORMATS), CMSSW], default=ROOT_DEMO.kind, help="what the requests run"
    )
    arguments = parser.parse_args()
    storage = Storage(arguments.storage_prefix)
    if arguments.payload == CMSSW:
        documents = seed_cmssw(arguments.url, storage, arguments.suffix)
    else:
        documents = seed(arguments.url, storage, arguments.suffix, FORMATS[arguments.payload])
    print(json.dumps({"requests": documents}, indent=1))


def seed(url: str, storage: Storage, suffix: str = "", format_: Format = TOY) -> list[dict[str, Any]]:
    """Write and register the data, and return the three requests; the first is in ReqMgr2 as well."""
    lab, scale = Laboratory(url), format_.scale
    muons, electrons = muon_dataset(suffix, scale), electron_dataset(suffix, scale)
    for dataset in (muons, electrons):
        lab.add("datasets", store_dataset(dataset, storage, format_))
    lab.add("subscriptions", DESTINATION)
    documents = [
        rereco(input_dataset=muons.name, suffix=suffix, format_=format_),
        monte_carlo(suffix=suffix, format_=format_),
        urgent(input_dataset=electrons.name, suffix=suffix, format_=format_),
    ]
    lab.add("requests", documents[0])
    return documents


def _prefix(text: str) -> str:
    if "{site}" not in text or not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not an absolute path with {{site}} in it")
    return text.rstrip("/")


def _suffix(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]{0,20}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not made of at most 20 letters and digits")
    return text


if __name__ == "__main__":
    main()
