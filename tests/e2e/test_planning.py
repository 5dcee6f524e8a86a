"""Planning on the real pool: a masked LumiBased request, and adaptive Monte Carlo that learns as it goes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from django.db.models import F

from dags_app.models import InputFile, MergeGroup, Round, Workflow
from outputs_app.models import OutputFile
from tests.e2e.conftest import Stack


def written(stack: Stack, workflow: Workflow) -> Counter[tuple[int, int, int]]:
    found: Counter[tuple[int, int, int]] = Counter()
    for file in OutputFile.objects.filter(block__dataset__workflow=workflow).select_related("block"):
        found += stack.events_in(file.lfn, file.block.site)
    return found


def test_a_masked_lumi_based_request_reads_exactly_the_mask(stack: Stack, suffix: str) -> None:
    document = stack.seed(suffix)[2]
    dataset_files = stack.lab_files(document["InputDataset"])
    runs = sorted({run for file in dataset_files for run, _, _ in file.lumis})
    mask = {str(run): [[1, 9]] for run in runs}
    name = stack.post(
        "requests",
        document | {"SplittingAlgo": "LumiBased", "LumisPerJob": 1, "LumiList": mask, "Urgent": True},
    )["request_name"]
    stack.wait_for(name, "completed")
    workflow = Workflow.objects.get(request_name=name)
    wanted: Counter[tuple[int, int, int]] = Counter()
    for file in InputFile.objects.filter(workflow=workflow):
        site = file.locations[0].removesuffix("_Disk")
        for (run, lumi, event), count in stack.events_in(file.lfn, site).items():
            if lumi <= 9:
                wanted[run, lumi, event] += count
    assert wanted
    assert written(stack, workflow) == wanted
    # Its jobs cross files, and so do its groups: a file that two of them read is credited when both are in.
    cut = InputFile.objects.filter(workflow=workflow, first_group__lt=F("last_group"))
    assert cut.exists()
    assert set(cut.values_list("state", "attempts")) == {("processed", 1)}
    ledger = stack.get(f"requests/{name}/ledger")
    assert ledger["missing"] == {"files": 0, "events": 0, "lumis": {}}
    assert ledger["states"]["processed"]["lumis"] == mask


def test_adaptive_monte_carlo_learns_from_round_to_round(stack: Stack, suffix: str) -> None:
    document = stack.seed(suffix)[1] | {
        "adaptive": True,
        "RequestNumEvents": 500,
        "EventsPerJob": 5,
        "EventsPerLumi": 5,
        "FilterEfficiency": 1.0,
        "Memory": 700,
        "target_merged_size_kb": 3,
        "PayloadConfig": {"toy": {"cpu_sec_per_event": 0.002, "output_kb_per_event": 0.0625}},
    }
    name = stack.post("requests", document)["request_name"]
    stack.wait_for(name, "completed")
    workflow = Workflow.objects.get(request_name=name)
    rounds = list(Round.objects.filter(workflow=workflow).order_by("number"))
    assert len(rounds) >= 3
    assert [one.estimate["source"] for one in rounds[:2]] == ["hints", "measured"]
    assert rounds[0].groups.count() == 1
    assert rounds[1].estimate["memory_mb"] != rounds[0].estimate["memory_mb"]
    steps = [one.estimate["events_per_job"] for one in rounds]
    assert steps[1] == 2 * steps[0]
    assert all(before <= after <= 2 * before for before, after in pairwise(steps))
    assert rounds[-1].groups.count() <= rounds[1].groups.count()
    statuses = [row["to_status"] for row in stack.status_changes(name)]
    assert statuses.count("queued") == len(rounds)
    events = written(stack, workflow)
    assert max(events.values()) == 1
    assert len(events) >= 500
    assert not MergeGroup.objects.filter(round__workflow=workflow).exclude(status="collected").exists()


def test_the_pilot_predicts_production_within_a_fifth(stack: Stack, suffix: str) -> None:
    # Seconds per window, mostly waiting, so that delays of a busy machine are small in comparison.
    toy = {"wait_sec_per_event": 0.2, "memory_mb": 100, "output_kb_per_event": 0.5}
    document = stack.seed(suffix)[0] | {"PayloadConfig": {"toy": toy}, "FilesPerJob": 1}
    done = stack.post("requests", document)
    stack.wait_for(done["request_name"], "completed")
    forecast = stack.get(f"workflows/{done['workflow']['id']}/status")["forecast"]
    assert forecast["predicted"]["source"] == "pilot"
    assert all(0.8 <= ratio <= 1.25 for ratio in forecast["ratio"].values()), forecast
