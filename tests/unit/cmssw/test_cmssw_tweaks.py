"""Changes of a configuration by a job, and the resulting configuration of cmsRun."""

from __future__ import annotations

import ast

from sandbox.cmssw.pieces import Piece
from sandbox.cmssw.tweaks import MAX_SEED, Task, build_tweaks, choose_seed, render_pset

SERVICES = {
    "process.CPU": "customTypeCms.Service('CPU')",
    "process.Timing": "customTypeCms.Service('Timing', summaryOnly=cms.untracked.bool(True))",
    "process.SimpleMemoryCheck": "customTypeCms.Service('SimpleMemoryCheck',"
    " jobReportOutputOnly=cms.untracked.bool(True))",
}


def test_reading_job() -> None:
    task = Task(
        inputs=("file:/data/a.root", "file:/data/b.root"),
        skip=10,
        events=20,
        mask={316877: [[1, 5], [9, 9]], 2: [[3, 4]]},
        threads=4,
        streams=2,
        outputs={"AODoutput": "AODoutput.root"},
    )

    assert build_tweaks(task) == SERVICES | {
        "process.maxEvents": "customTypeCms.untracked.PSet(input=cms.untracked.int32(20))",
        "process.options.numberOfThreads": "customTypeCms.untracked.uint32(4)",
        "process.options.numberOfStreams": "customTypeCms.untracked.uint32(2)",
        "process.source.fileNames": "customTypeCms.untracked.vstring("
        "['file:/data/a.root', 'file:/data/b.root'])",
        "process.source.skipEvents": "customTypeCms.untracked.uint32(10)",
        "process.source.lumisToProcess": "customTypeCms.untracked.VLuminosityBlockRange("
        "['2:3-2:4', '316877:1-316877:5', '316877:9-316877:9'])",
        "process.AODoutput.fileName": "customTypeCms.untracked.string('AODoutput.root')",
    }


def test_generating_job() -> None:
    piece = Piece(events=500, generates=True, run=1, first_event=1001, first_lumi=11, events_per_lumi=100)

    assert build_tweaks(Task(events=500, generate=piece)) == SERVICES | {
        "process.maxEvents": "customTypeCms.untracked.PSet(input=cms.untracked.int32(500))",
        "process.options.numberOfThreads": "customTypeCms.untracked.uint32(1)",
        "process.options.numberOfStreams": "customTypeCms.untracked.uint32(0)",
        "process.source.firstRun": "customTypeCms.untracked.uint32(1)",
        "process.source.firstLuminosityBlock": "customTypeCms.untracked.uint32(11)",
        "process.source.firstEvent": "customTypeCms.untracked.uint32(1001)",
        "process.source.numberEventsInLuminosityBlock": "customTypeCms.untracked.uint32(100)",
    }


def test_generating_job_with_lhe_files_skips_earlier_events() -> None:
    piece = Piece(events=500, generates=True, first_event=1001)

    tweaks = build_tweaks(Task(events=500, generate=piece, lhe=True))

    assert tweaks["process.source.skipEvents"] == "customTypeCms.untracked.uint32(1000)"
    assert "process.source.firstEvent" not in tweaks


def test_step_that_reads_another_takes_all_its_events() -> None:
    tweaks = build_tweaks(Task(inputs=("file:../step0/RAWSIMoutput.root",)))

    assert tweaks["process.maxEvents"] == "customTypeCms.untracked.PSet(input=cms.untracked.int32(-1))"
    assert "process.source.lumisToProcess" not in tweaks


def test_empty_mask_selects_no_lumi() -> None:
    tweaks = build_tweaks(Task(mask={}))

    assert tweaks["process.source.lumisToProcess"] == "customTypeCms.untracked.VLuminosityBlockRange([])"


def test_seed_depends_only_on_its_parts() -> None:
    seeds = {choose_seed("workflow", event, step) for event in range(200) for step in range(3)}

    assert choose_seed("workflow", 7, 1) == choose_seed("workflow", 7, 1)
    assert len(seeds) == 600
    assert min(seeds) >= 1
    assert max(seeds) <= MAX_SEED


def test_configuration_of_cmsrun_is_a_program_of_python_2_as_well() -> None:
    text = render_pset(seed=123, pileup_seed=456)

    tree = ast.parse(text)
    assert "@" not in text
    assert "123" in text
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.AnnAssign | ast.NamedExpr)
    ]
