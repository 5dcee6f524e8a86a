"""ReqMgr2: documents of requests, and their status there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cms.http import HttpOptions, JsonService, Params
from wms2_project.errors import NotFound, ServiceRejected, ServiceUnavailable
from wms2_project.grammar import Name, check

REQUEST = "data/request"
ASSIGNED = "assigned"
# The part of ReqMgr2's state machine that WMS2 uses.
CHAIN = (
    "new", "assignment-approved", "assigned", "staging", "staged", "acquired", "running-open",
    "running-closed", "completed", "closed-out", "announced", "normal-archived",
)  # fmt: skip
# States outside the chain that lead back into it, and the state of the chain that they correspond to.
SIDINGS = {"failed": "assignment-approved", "force-complete": "running-closed"}
ABORTED = "aborted"
# Next status when a request is given up: unassigned requests are rejected, a forced completion can only be
# completed. Requests that are completed or ended in ReqMgr2 are left as they are.
GIVEN_UP = {
    "new": "rejected",
    "assignment-approved": "rejected",
    "failed": "rejected",
    "force-complete": "completed",
    **dict.fromkeys(CHAIN[2:8], ABORTED),
}


@dataclass(frozen=True, slots=True)
class ReqMgr2Config:
    """`url` is the service itself, such as https://host/reqmgr2."""

    url: str
    http: HttpOptions = field(default_factory=HttpOptions)


@dataclass(frozen=True, slots=True)
class Assignment:
    """Members that ReqMgr2 requires to assign a request: a team and at least one site."""

    team: str
    sites: tuple[str, ...]


class ReqMgr2Client:
    """Reads requests and sets their status; never creates one."""

    def __init__(self, config: ReqMgr2Config) -> None:
        self._service = JsonService(service="ReqMgr2", base_url=config.url, options=config.http)

    def request(self, name: str) -> dict[str, Any]:
        """Return the document of a request, unchanged; raise NotFound if there is none."""
        check(Name.REQUEST, name, field="request_name")
        for found in self._result({"name": name}):
            if isinstance(found, dict) and isinstance(found.get(name), dict):
                document: dict[str, Any] = found[name]
                return document
        raise NotFound(f"ReqMgr2 has no request named {name}", cure="Check the spelling of the name")

    def set_status(self, name: str, status: str, *, assignment: Assignment | None = None) -> None:
        """Set the status of the request, unless it is set already."""
        check(Name.REQUEST, name, field="request_name")
        body: dict[str, Any] = {"RequestStatus": status}
        if status == ASSIGNED and assignment is not None:
            body |= {"Team": assignment.team, "SiteWhitelist": list(assignment.sites)}
        try:
            answer = self._service.put(f"{REQUEST}/{name}", body=body)
        except (ServiceUnavailable, ServiceRejected):
            # The change may have taken effect despite the error, and ReqMgr2 refuses to repeat it.
            if self.request(name).get("RequestStatus") == status:
                return
            raise
        rows = answer.get("result", []) if isinstance(answer, dict) else []
        if not any(isinstance(row, dict) and row.get(name) == "OK" for row in rows):
            raise ServiceRejected(f"ReqMgr2 did not set {name} to {status}: {str(answer)[:300]}")

    def bring_to(self, name: str, status: str, *, assignment: Assignment) -> None:
        """Move the request forward to the status along ReqMgr2's state machine."""
        current = str(self.request(name).get("RequestStatus") or "")
        for step in decide_path(current, status):
            self.set_status(name, step, assignment=assignment)

    def _result(self, params: Params) -> list[Any]:
        answer = self._service.get(REQUEST, params)
        if not isinstance(answer, dict) or not isinstance(answer.get("result"), list):
            raise ServiceUnavailable(f"ReqMgr2: GET {REQUEST} did not return a result list")
        result: list[Any] = answer["result"]
        return result


def decide_path(current: str, target: str) -> tuple[str, ...]:
    """Return the statuses to set in order; none if ReqMgr2 is at, past or on another way than the target."""
    if target == ABORTED:
        return (GIVEN_UP[current],) if current in GIVEN_UP else ()
    here = SIDINGS.get(current, current)
    if here not in CHAIN:
        return ()
    return CHAIN[CHAIN.index(here) + 1 : CHAIN.index(target) + 1]
