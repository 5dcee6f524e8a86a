"""The JSON documents between WMS2 and its jobs: errors are refused and named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import jsonfile
from sandbox.claims import check_group_manifest
from sandbox.manifest import (
    GroupManifest,
    ManifestError,
    ManifestMissing,
    read_group_manifest,
    read_jobs,
    write_group_manifest,
)
from sandbox.postrecord import read_record
from sandbox.report import NodeReport, read_report, write_report

if TYPE_CHECKING:
    from tests.job_world import World

GROUP: dict[str, Any] = {
    "schema": 1,
    "workflow_id": "6f1c2f6e",
    "round": 0,
    "group": "mg_000000",
    "site": "T1_US_FNAL",
    "jobs": 8,
    "events_read": 800,
    "events_written": 400,
    "outputs": [
        {
            "dataset": "/Prim/Era-Str-v1/TIER",
            "lfn": "/store/data/x.root",
            "size_bytes": 1,
            "adler32": "0123abcd",
            "events": 400,
            "lumis": {"316877": [[1, 80]]},
            "lumi_events": {"316877": [[1, 80, 5]]},
            "parents": ["/store/data/in.root"],
        }
    ],
    "metrics": {
        "wall_time_per_event_sec": 0.01,
        "peak_rss_mb": 50,
        "output_kb_per_event": 1.2,
        "cpu_efficiency": 0.9,
        "jobs": 8,
        "wall_time_sec": 12.0,
        "job_wall_p95_sec": 2.5,
    },
    "log": None,
    "pilot": {
        "iterations": [
            {
                "events": 10,
                "wall_time_sec": 1.5,
                "memory_mb": 50,
                "cpu_efficiency": 0.9,
                "output_size_per_event_kb": 1.0,
            }
        ],
        "per_step": [
            {
                "step": "payload",
                "time_per_event": 0.1,
                "memory_mb": 50,
                "output_size_per_event_kb": 1.0,
                "threads": 1,
            }
        ],
        "recommended": {
            "events_per_job": 100,
            "memory_mb": 60,
            "time_per_job_sec": 28800,
            "output_size_per_event_kb": 1.0,
        },
        "converged": True,
    },
}


def changed(document: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with one value replaced, or removed when the value is `...`."""
    result = copy.deepcopy(document)
    place: Any = result
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in parents:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return result


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", 2),
        ("schema", True),
        ("schema", ...),
        ("workflow_id", "../../etc"),
        ("site", "T2_CH_CERN\nqueue"),
        ("jobs", 0),
        ("jobs", "8"),
        ("events_read", -1),
        ("events_read", 1.5),
        ("events_written", True),
        ("events_written", 10**30),
        ("outputs", []),
        ("outputs", {}),
        ("outputs.0", None),
        ("outputs.0.dataset", 7),
        ("outputs.0.dataset", "/only/two"),
        ("outputs.0.lfn", "/store/../../etc/passwd"),
        ("outputs.0.lfn", "/tmp/x.root"),
        ("outputs.0.size_bytes", float("nan")),
        ("outputs.0.adler32", "xyz"),
        ("outputs.0.lumis", {"316877": [[9, 1]]}),
        ("outputs.0.lumis", {"316877": [[1]]}),
        ("outputs.0.lumis", {"run": [[1, 2]]}),
        ("outputs.0.lumis", {"1": [[1, 10**12]]}),
        ("outputs.0.lumis", []),
        ("outputs.0.parents", [1]),
        ("metrics.cpu_efficiency", float("inf")),
        ("metrics.wall_time_sec", -0.5),
        ("metrics", None),
        ("pilot.recommended.events_per_job", 0),
        ("pilot.iterations.0.events", 0),
        ("pilot.converged", 1),
    ],
)
def test_a_group_manifest_with_a_bad_field_is_refused_by_name(tmp_path: Path, path: str, value: Any) -> None:
    file = tmp_path / "merge_output.json"
    file.write_text(json.dumps(changed(GROUP, path, value)))

    with pytest.raises(ManifestError) as caught:
        read_group_manifest(file)
    named = [path.split(".")[0], "NaN", "Infinity"]
    assert any(name in str(caught.value) for name in named)


def test_a_good_group_manifest_is_written_as_it_was_read(tmp_path: Path) -> None:
    first, second = tmp_path / "one.json", tmp_path / "two.json"
    first.write_text(json.dumps(GROUP))
    manifest = read_group_manifest(first)
    write_group_manifest(second, manifest)

    assert json.loads(second.read_text()) == GROUP
    assert manifest.outputs[0].lumis == {316877: [[1, 80]]}
    assert manifest.pilot is not None
    assert manifest.pilot.recommended.events_per_job == 100


def test_two_outputs_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "merge_output.json"
    file.write_text(json.dumps({**GROUP, "outputs": GROUP["outputs"] * 2}))

    with pytest.raises(ManifestError, match="different files"):
        read_group_manifest(file)


READERS: list[Callable[[Path], object]] = [read_group_manifest, read_jobs, read_report, read_record]


@pytest.mark.parametrize("reader", READERS)
def test_missing_truncated_and_oversized_documents_are_distinguished(
    tmp_path: Path, reader: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "document.json"
    with pytest.raises(ManifestMissing, match="no such file"):
        reader(file)
    text = json.dumps(GROUP)
    file.write_text(text[: len(text) // 2])
    with pytest.raises(ManifestError, match="not a JSON document"):
        reader(file)
    file.write_text("[" * 100_000)
    with pytest.raises(ManifestError, match=r"not a JSON document|levels"):
        reader(file)
    for cap in ("MAX_OWN_BYTES", "MAX_CLAIM_BYTES"):
        monkeypatch.setattr(jsonfile, cap, 10)
    with pytest.raises(ManifestError, match="larger than"):
        reader(file)
    with pytest.raises(ManifestError, match="cannot be read"):
        reader(tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.sampled_from([*GROUP, "node", "jobs"]), inner, max_size=5),
            ),
            max_leaves=10,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_bytes_are_either_a_document_or_a_manifest_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "document.json"
    file.write_bytes(content)
    for reader in READERS:
        with pytest.raises(ManifestError):
            reader(file)


def test_a_manifest_must_match_its_own_plan(world: World) -> None:
    world.add_job("proc_000000", [world.add_file("a", 10)])
    world.plan()
    plan = read_jobs(world.group / "jobs.json")
    output = {
        **GROUP["outputs"][0],
        "dataset": plan.outputs[0].dataset,
        "lfn": plan.merged_lfn(plan.outputs[0]),
    }
    output |= {"events": 5, "lumi_events": {"316877": [[1, 5, 1]]}, "parents": ["/store/data/a.root"]}
    good = {**GROUP, "workflow_id": plan.workflow_id, "outputs": [output], "pilot": None}
    good |= {"jobs": 1, "metrics": {**GROUP["metrics"], "jobs": 1}, "events_read": 10, "events_written": 5}

    def check(document: dict[str, Any]) -> None:
        path = world.root / "m.json"
        path.write_text(json.dumps(document))
        manifest: GroupManifest = read_group_manifest(path)
        check_group_manifest(manifest, plan)

    check(good)
    for key, value in [("round", 1), ("group", "mg_000001"), ("workflow_id", "other")]:
        with pytest.raises(ManifestError, match=key):
            check({**good, key: value})
    with pytest.raises(ManifestError, match=r"claimed /Not/Planned-v1/RECO .* expected /Toy/"):
        check({**good, "outputs": [{**output, "dataset": "/Not/Planned-v1/RECO"}]})


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("storage", "relative/{site}", "storage"),
        ("outputs", [], "outputs"),
        ("outputs.0.unmerged_base", "/store/../etc", "unmerged_base"),
        ("merged_ids", {}, "merged_ids"),
        ("jobs", {}, "jobs"),
        ("jobs.proc_000000.files", [], "not neither"),
        ("jobs.proc_000000.files.0.last_event", 10, "window"),
        ("jobs.proc_000000.files.0.first_event", 12, "window"),
        ("jobs.proc_000000.files.0.lfn", "/etc/passwd", "lfn"),
        ("jobs.proc_000000.mask", {"1": [[2, 1]]}, "mask"),
        (
            "jobs.proc_000000.generate",
            {"first_event": 1, "last_event": 2, "first_lumi": 1, "events_per_lumi": 1, "run": 1},
            "not both",
        ),
        ("pilot", {"initial_events": 0}, "initial_events"),
    ],
)
def test_a_plan_with_a_bad_field_is_refused_by_name(
    world: World, path: str, value: Any, message: str
) -> None:
    world.add_job("proc_000000", [world.add_file("a", 10)])
    file = world.root / "jobs.json"
    file.write_text(json.dumps(changed(world.document(), path, value)))

    with pytest.raises(ManifestError, match=message):
        read_jobs(file)


@pytest.mark.parametrize(
    ("message", "understood"), [("0123abcd", "0123abcd"), ("ABCD", "0000abcd"), ("NOTSET", ""), ("", "")]
)
def test_a_checksum_is_understood_as_old_catalogues_write_it(
    world: World, message: str, understood: str
) -> None:
    world.add_job("proc_000000", [{**world.add_file("a", 10), "adler32": message}])
    world.plan()

    assert read_jobs(world.group / "jobs.json").jobs["proc_000000"].files[0].adler32 == understood


def test_a_json_value_that_is_not_a_number_is_refused(world: World) -> None:
    world.add_job("proc_000000", [world.add_file("a", 10)])
    world.payload = {"anything": float("nan")}
    world.plan()

    with pytest.raises(ManifestError, match="NaN"):
        read_jobs(world.group / "jobs.json", payload=world.root / "payload.json")


def test_a_payload_configuration_that_is_no_object_is_refused(world: World) -> None:
    world.add_job("proc_000000", [world.add_file("a", 10)])
    world.plan()
    (world.root / "payload.json").write_text("[]")

    with pytest.raises(ManifestError, match=r"payload\.json"):
        read_jobs(world.group / "jobs.json", payload=world.root / "payload.json")


def test_a_report_keeps_free_text_harmless(tmp_path: Path) -> None:
    file = tmp_path / "proc_000000.report.json"
    report = NodeReport(
        node="proc_000000",
        group="mg_000000",
        role="processing",
        site="T2_CH_CERN",
        attempt=0,
        exit_code=8021,
        error="a\0b\ud800\x1b[31m\nsecond line " + "x" * 10_000,
        started_at=1.5,
        wall_time_sec=2,
        cpu_time_sec=1,
        peak_rss_mb=50,
        events_read=0,
        events_written=0,
    )
    write_report(file, report)

    message = read_report(file).error
    assert message.startswith("a?b??[31m\nsecond line")
    assert len(message) == jsonfile.MAX_TEXT
