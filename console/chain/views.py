"""The page of a chain: one live fragment with its graph, explanation, cleanup and events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from chains_app.selectors.chains import chain_by_number, chain_graph, chain_progress, chain_why
from chains_app.services.cleaning import removal_plan
from chains_app.states import CHAINS, DATASETS, STEPS, ChainStatus
from console.chain.drawing import draw_graph
from console.fragments import Fragment
from wms2_project.access.roles import Role
from wms2_project.changes import chain_topic
from wms2_project.errors import NotFound

EVENTS, CALLS = 100, 200  # shown
TONES: dict[str, str] = {
    **{str(status): one.colour for status, one in DATASETS.items()},
    **{str(status): one.colour for status, one in STEPS.items()},
}


def read_chain(of: str, _role: Role) -> Mapping[str, Any]:
    """Return the context of the page of a chain."""
    if not of.isdecimal():
        raise NotFound(f"There is no chain {of}")
    chain = chain_by_number(int(of))
    return {
        "chain": chain,
        "tone": CHAINS[ChainStatus(chain.status)].colour or "neutral",
        "drawing": draw_graph(chain_graph(chain), TONES),
        "why": chain_why(chain, now=timezone.now()),
        "progress": chain_progress(chain),
        "cleanup": removal_plan(chain),
        "events": chain.events.select_related("step").order_by("-id")[:EVENTS],
        "steps": chain.steps.select_related("request").order_by("id")[:CALLS],
    }


CHAIN = Fragment(
    name="chain",
    template="console/chain/fragment.html",
    read=read_chain,
    topics=lambda of: frozenset({chain_topic(of)}),
)
