"""Chains on the real pool: a dataset arrives, and every step runs as an ordinary request."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from dags_app.adapters import dbs
from tests.e2e.conftest import Json, Stack
from tests.waiting import until

STEP = """
      class: Operation
      inputs: {{data: {data}{more}}}
      outputs: {{out: Directory, events: long}}
      hints:
        wms2:Step:
          mode: {mode}
          tier: USER
          {splitting}
          request: {{urgent: true, time_per_event_sec: 0.01, size_per_event_kb: 1, memory_mb: 100,
                    payload_config: {payload}}}
"""


def step(*, mode: str = "map", data: str = "Directory", more: str = "") -> str:
    """Return a tool of the toy payload that reads everything in one job."""
    merging = mode == "merge"
    payload = "{kind: merge, merge: {tool: events}}" if merging else "{kind: toy}"
    splitting = "" if merging else "splitting: {algo: FileBased, files_per_job: 1000}"
    return STEP.format(mode=mode, data=data, more=more, payload=payload, splitting=splitting)


DOCUMENT = f"""
cwlVersion: v1.2
class: Workflow
$namespaces: {{wms2: "https://wms2.example.org/cwl#"}}
requirements:
  ScatterFeatureRequirement: {{}}
  MultipleInputFeatureRequirement: {{}}
inputs:
  data: Directory
  parts: {{type: "int[]", default: [1, 2, 3]}}
  least: {{type: long, default: 1000000000}}
steps:
  skim:
    in: {{data: data}}
    out: [out, events]
    run: {step()}
  slim:
    in: {{data: skim/out}}
    out: [out, events]
    run: {step()}
  part:
    scatter: number
    in: {{data: skim/out, number: parts}}
    out: [out, events]
    run: {step(more=", number: int")}
  extra:
    in: {{data: slim/out, events: slim/events, least: least}}
    when: $(inputs.events >= inputs.least)
    out: [out]
    run: {step(more=", events: long, least: long")}
  join:
    in:
      data:
        source: [part/out, slim/out]
        linkMerge: merge_flattened
    out: [out, events]
    run: {step(mode="merge", data='"Directory[]"')}
outputs:
  joined: {{type: Directory, outputSource: join/out}}
  events: {{type: long, outputSource: join/events}}
  extra: {{type: "Directory?", outputSource: extra/out}}
"""


def act(stack: Stack, path: str, body: Json, *, expect: int = 200) -> Json:
    return stack.post(path, {"reason": "e2e"} | body, expect=expect)


def finished(stack: Stack, number: int) -> Json | None:
    chain = stack.get(f"chains/{number}")
    assert chain["status"] not in ("held", "cancelled"), stack.get(f"chains/{number}/why")
    return chain if chain["status"] == "finished" else None


def test_a_dataset_is_taken_through_all_steps_and_intermediates_are_removed(
    stack: Stack, suffix: str
) -> None:
    name = f"chain{suffix}"
    dataset = str(stack.seed(suffix)[2]["InputDataset"])
    load: Json = {"name": name, "mask": f"^{dataset}$", "cleanup": "greedy"}
    broken = stack.api.post(
        f"{stack.url}/api/v1/templates",
        json=load | {"document": DOCUMENT.replace("skim/out", "skin/out"), "reason": "e2e"},
        timeout=60,
    )
    assert broken.status_code == 422
    assert "line " in broken.text
    act(stack, "templates", load | {"document": DOCUMENT}, expect=201)
    act(stack, f"templates/{name}/1/activate", {})

    unmatched = stack.post("datasets", {"uid": f"x{suffix}", "name": f"/Other/{suffix}-v1/RAW"})
    made = stack.post("datasets", {"uid": f"a{suffix}", "name": dataset})

    assert unmatched["status"] == "dead_letter"
    assert stack.post("datasets", {"uid": f"a{suffix}", "name": dataset})["chains"] == made["chains"]
    number = made["chains"][0]
    chain = until(lambda: finished(stack, number), seconds=600, why=f"chain {number}")
    steps = {one["name"]: one for one in chain["steps"]}
    assert {one: steps[one]["status"] for one in steps} == {
        "skim": "finished", "slim": "finished", "part[0]": "finished", "part[1]": "finished",
        "part[2]": "finished", "extra": "skipped", "join": "finished",
    }  # fmt: skip
    counts = {one: int(steps[one]["outputs"]["events"]) for one in steps if one != "extra"}
    assert counts["skim"] > 0
    assert counts["join"] == 4 * counts["skim"]
    _check_datasets(stack, chain)

    act(stack, f"templates/{name}/1/archive", {})
    late = stack.post("datasets", {"uid": f"b{suffix}", "name": dataset})
    assert (late["status"], late["chains"]) == ("dead_letter", [])


def _check_datasets(stack: Stack, chain: Json) -> None:
    """Check that final and input are kept, and intermediates are DELETED in DBS without rules."""

    def removed() -> bool:
        rows = stack.get(f"chains/{chain['id']}")["datasets"]
        return all(
            one["status"] == "removed"
            for one in rows
            if one["role"] == "intermediate" and one["producer"] != "extra"
        )

    until(removed, seconds=120, why="the removal of intermediates")
    rows: list[Any] = stack.get(f"chains/{chain['id']}")["datasets"]
    access: dict[str, set[str | None]] = {}
    for one in rows:
        found = dbs().dataset(one["dataset_name"])
        access.setdefault(one["role"], set()).add(found.access_type if found else None)
    assert access["final"] == {"VALID", None}, "None: the final of the skipped step"
    assert access["intermediate"] == {"DELETED"}
    assert access["input"] == {"VALID"}
    assert access["log"] == {None}, "log datasets are in Rucio only"


HEAD = "cwlVersion: v1.2\nclass: Workflow\ninputs: {data: Directory}\noutputs: {}\nsteps:\n"
TOOL = "{class: Operation, inputs: {data: Directory}, outputs: {out: Directory}}"
ROWS = [
    "a0: &a0 [x, x, x, x, x, x, x, x, x]",
    *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
]
HOSTILE = {
    "busy": HEAD
    + "".join(f"  s{n}: {{in: {{data: data}}, out: [out], run: {TOOL}}}\n" for n in range(400))
    + f"  last: {{in: {{data: absent}}, out: [out], run: {TOOL}}}\n",
    "bomb": "\n".join(ROWS),
    "aliases": "a: &a 1\nb: [" + "*a, " * 250_000 + "]",
}


def test_web_answers_while_hostile_templates_are_checked(stack: Stack) -> None:
    """They are more than the web process has threads. Another call takes less time than one check."""

    def load(kind: str) -> requests.Response:
        return requests.post(
            f"{stack.url}/api/v1/templates",
            json={"name": "hostile", "document": HOSTILE[kind], "reason": "e2e"},
            headers=dict(stack.api.headers),
            timeout=300,
        )

    took = list[float]()
    with ThreadPoolExecutor(32) as people:
        sent = [people.submit(load, kind) for kind in ["busy"] * 30 + ["bomb", "aliases"] * 5]
        while not all(one.done() for one in sent):
            began = time.monotonic()
            stack.get("requests?page_size=1")
            took.append(time.monotonic() - began)
    answers = [one.result() for one in sent]
    checked = [one.elapsed.total_seconds() for one in answers[:30] if one.status_code == 422]

    assert {one.status_code for one in answers} == {413, 422, 503}
    assert max(took) < min(checked)
    assert all("Retry-After" in one.headers for one in answers if one.status_code == 503)
    assert stack.get("templates?name=hostile")["results"] == []
