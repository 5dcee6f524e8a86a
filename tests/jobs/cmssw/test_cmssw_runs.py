"""Jobs of the kind `cmssw` on a node with the stand-in for CMS software: real files, real reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandbox.exitcodes import Fault, fault_of
from tests.cmssw_world import MIXING, NODE, Node, build_pset, build_step, halving, read_branch, read_root

GENSIM, RAW, AOD = "/Z/Era-Gen-v1/GEN-SIM", "/Z/Era-Digi-v1/GEN-SIM-RAW", "/Z/Era-Reco-v1/AODSIM"
PREMIX = "/Neutrino/Premix-v1/PREMIX"


def generation(node: Node, *, more: str = "", source: str = "EmptySource", **step: Any) -> None:
    """Configure one step that generates GEN-SIM."""
    made = build_step("GENSIM", {"RAWSIMoutput": "GEN-SIM"}, outputs={"RAWSIMoutput": GENSIM}, **step)
    node.use_steps([made], [build_pset("RAWSIMoutput", source=source, more=more)])


def reading(node: Node, more: str = "") -> None:
    """Configure one step that reads its input and writes AODSIM."""
    made = build_step("RECO", {"AODSIMoutput": "AODSIM"}, outputs={"AODSIMoutput": AOD})
    node.use_steps([made], [build_pset("AODSIMoutput", more=more)])


def chain(node: Node) -> None:
    """Configure three steps: GEN-SIM is dropped, GEN-SIM-RAW with pileup and AODSIM are kept."""
    node.use_steps(
        [
            build_step("GENSIM", {"RAWSIMoutput": "GEN-SIM"}, cores=2, streams=2),
            build_step(
                "DIGI",
                {"PREMIXRAWoutput": "GEN-SIM-RAW"},
                outputs={"PREMIXRAWoutput": RAW},
                parent=0,
                module="RAWSIMoutput",
                arch="slc7_amd64_gcc700",
                release="CMSSW_10_6_17_patch1",
                pileup={"mc": [PREMIX]},
            ),
            build_step("RECO", {"AODSIMoutput": "AODSIM"}, outputs={"AODSIMoutput": AOD}, parent=1),
        ],
        [
            build_pset("RAWSIMoutput", source="EmptySource"),
            build_pset("PREMIXRAWoutput", more=MIXING),
            build_pset("AODSIMoutput"),
        ],
        pileup={PREMIX: ["/store/data/premix0.root", "/store/data/premix1.root"]},
    )
    for number in range(2):
        node.add_input(f"premix{number}", events=10, first_event=1000 * number)


def test_generated_events_have_the_planned_numbers_and_lumis(node: Node) -> None:
    generation(node)
    node.generate_job(101, 125, first_lumi=7)

    report = node.run()

    assert (report["exit_code"], report["error"]) == (0, "")
    assert node.events(report, GENSIM) == [(1, 7 + (n - 101) // 10, n) for n in range(101, 126)]
    output = report["outputs"][0]
    assert (output["events"], output["lumis"]) == (25, {"1": [[7, 9]]})
    assert (report["events_read"], report["events_written"]) == (25, 25)


def test_job_that_is_run_again_makes_the_same_events(node: Node) -> None:
    generation(node)
    node.generate_job(1, 20)
    node.generate_job(21, 40, node="proc_000001")
    masses = []
    for name in (NODE, NODE, "proc_000001"):
        output = node.run(name)["outputs"][0]
        masses.append(read_branch(node.path(output["lfn"]), "mass"))

    assert masses[0] == masses[1]
    assert masses[0] != masses[2]


def test_lhe_source_skips_to_its_events(node: Node) -> None:
    generation(node, source="LHESource", lhe=True)
    node.generate_job(31, 40)

    report = node.run()

    assert [event for _, _, event in node.events(report, GENSIM)] == list(range(31, 41))


def test_filter_keeps_the_lumis_that_it_empties(node: Node) -> None:
    generation(node, more=halving())
    node.generate_job(1, 40, events_per_lumi=1)

    report = node.run()

    output = report["outputs"][0]
    assert 0 < output["events"] < 40
    assert output["lumis"] == {"1": [[1, 40]]}
    assert report["events_read"] == 40


def test_chain_runs_in_one_job_and_keeps_what_has_a_dataset(node: Node) -> None:
    chain(node)
    node.cores = 2
    node.generate_job(1, 30)

    report = node.run()

    assert report["error"] == ""
    numbers = [(1, 1 + (n - 1) // 10, n) for n in range(1, 31)]
    assert [one["dataset"] for one in report["outputs"]] == [RAW, AOD]
    assert node.events(report, RAW) == node.events(report, AOD) == numbers
    assert not list(node.storage.rglob("*GEN-SIM.root"))
    assert len(list((node.storage / "store/unmerged").rglob("*.root"))) == 2


def test_pileup_is_read_from_the_given_files_in_an_order_of_the_job(node: Node) -> None:
    chain(node)
    digi = node.payload["cmssw"]["steps"][1]
    node.use_steps(
        [digi | {"parent": None, "module": ""}], [node.psets["pset_2.py"]], pileup=node.payload["pileup"]
    )
    node.read_job([node.add_input("sim", events=20)])
    lfn = node.run()["outputs"][0]["lfn"]
    first = read_branch(node.path(lfn), "pileup")
    node.run()

    mixed = {*read_branch(node.path("/store/data/premix0.root"), "mass")}
    assert {*first} == mixed  # both files have the same masses
    assert read_branch(node.path(lfn), "pileup") == first


def test_pileup_without_files_is_refused(node: Node) -> None:
    chain(node)
    del node.payload["pileup"]
    node.generate_job(1, 10)

    report = node.run()

    assert report["exit_code"] == 7002
    assert f"pileup: no files of {PREMIX} are given" in report["error"]


def test_window_and_mask_of_the_input_are_obeyed(node: Node) -> None:
    reading(node)
    first = node.add_input("a", run=316877, events=40)
    second = node.add_input("b", run=316877, first_lumi=5, first_event=41, events=40)
    node.read_job([first, second], mask={"316877": [[2, 2], [5, 6]]})

    report = node.run()

    assert report["error"] == ""
    found = node.events(report, AOD)
    assert [event for _, _, event in found] == [*range(11, 21), *range(41, 61)]
    assert report["outputs"][0]["lumis"] == {"316877": [[2, 2], [5, 6]]}
    assert {one["lfn"]: one["events"] for one in report["inputs"]} == {first["lfn"]: 10, second["lfn"]: 20}


def test_part_of_a_file_is_read(node: Node) -> None:
    reading(node)
    node.read_job([{**node.add_input("a"), "first_event": 5, "last_event": 24}])

    report = node.run()

    assert [event for _, _, event in node.events(report, AOD)] == list(range(6, 26))
    assert report["events_read"] == 20


def test_file_with_a_mask_of_its_own_beside_another(node: Node) -> None:
    reading(node)
    first, second = node.add_input("a"), node.add_input("b", first_event=41)
    node.read_job([first, {**second, "mask": {"1": [[1, 1]]}}], mask={"1": [[3, 4]]})

    report = node.run()

    assert report["error"] == ""
    assert [event for _, _, event in node.events(report, AOD)] == [*range(21, 41), *range(41, 51)]


def test_pilot_processes_every_event_once(node: Node) -> None:
    generation(node)
    node.pilot = {"initial_events": 7, "tolerance": 0.0, "time_budget_sec": 60, "target_job_sec": 3600}
    node.generate_job(1, 40)

    report = node.run()

    assert report["error"] == ""
    assert sorted(node.events(report, GENSIM)) == [(1, 1 + (n - 1) // 10, n) for n in range(1, 41)]
    assert [one["events"] for one in report["pilot"]["iterations"]][:2] == [7, 14]


def test_group_is_merged_by_cmsrun(node: Node) -> None:
    generation(node)
    node.generate_job(1, 20)
    node.generate_job(21, 40, node="proc_000001", first_lumi=3)
    for name in (NODE, "proc_000001"):
        assert node.run(name)["exit_code"] == 0

    report = node.run("merge")

    assert report["error"] == ""
    merged = report["outputs"][0]
    assert read_root(node.path(merged["lfn"])) == [(1, 1 + (n - 1) // 10, n) for n in range(1, 41)]
    assert merged["lumi_events"] == {"1": [[1, 4, 10]]}


def test_merge_refuses_a_file_with_other_events_than_reported(node: Node) -> None:
    generation(node)
    node.generate_job(1, 20)
    node.run()
    path = node.root / "reports" / f"{NODE}.report.json"
    path.write_text(
        path.read_text().replace('"events":20', '"events":19').replace('written":20', 'written":19')
    )

    report = node.run("merge")

    assert report["exit_code"] == 99310
    assert "claimed 19, the file has 20" in report["error"]


@pytest.mark.parametrize(
    ("fault", "code", "message"),
    [
        ("project", 71, "project ended with status 1"),
        ("runtime", 73, "runtime ended with status 1"),
        ("tweak", 50513, "configure ended with status 1"),
        ("crash", 50115, "cmsRun ended with signal 6"),
        ("noreport", 50115, "cmsRun ended with status 0"),
        ("8009", 8009, "cmsRun ended with status 73: An exception of category 'StandIn' occurred"),
        ("8028", 8028, "cmsRun ended with status 92"),
    ],
)
def test_fault_of_the_software_gets_its_code(node: Node, fault: str, code: int, message: str) -> None:
    generation(node)
    node.generate_job(1, 10)
    node.variables = {"STANDIN_FAIL": fault}

    report = node.run()

    assert report["exit_code"] == code
    assert report["error"].startswith("step 1 (GENSIM): ")
    assert message in report["error"]
    assert report["outputs"] == []


def test_failure_of_a_later_step_is_named_and_blames_no_input(node: Node) -> None:
    chain(node)
    programs = [*node.psets.values()]
    programs[2] += "raise RuntimeError('no such module')\n"
    node.use_steps(node.payload["cmssw"]["steps"], programs, pileup=node.payload["pileup"])
    node.generate_job(1, 10)

    report = node.run()

    assert report["exit_code"] == 7002
    assert report["error"].startswith("step 3 (RECO): the configuration cannot be read")
    assert "no such module" in report["error"]
    assert (report["bad_inputs"], fault_of(report["exit_code"])) == ([], Fault.USER)


def test_input_that_cmsrun_cannot_open_is_blamed(node: Node) -> None:
    reading(node)
    good, bad = node.add_input("a"), node.add_input("b")
    path = node.path(bad["lfn"])
    path.write_bytes(b"not a ROOT file")
    bad |= {"size_bytes": 15, "adler32": ""}
    node.read_job([good, bad])

    report = node.run()

    assert report["exit_code"] == 8020
    assert report["bad_inputs"] == [bad["lfn"]]


def test_input_with_fewer_events_than_planned_is_blamed(node: Node) -> None:
    reading(node)
    file = node.add_input("a", events=30)
    node.read_job([{**file, "events": 40, "last_event": 39}])

    report = node.run()

    assert report["exit_code"] == 8021
    assert "cmsRun read 30 of the 40 planned events" in report["error"]
    assert report["bad_inputs"] == [file["lfn"]]


def test_node_without_software_names_the_searched_paths(node: Node, tmp_path: Path) -> None:
    if Path("/cvmfs/cms.cern.ch/cmsset_default.sh").exists():
        pytest.skip("this machine has CMS software")
    generation(node)
    node.generate_job(1, 10)
    node.variables = {"VO_CMS_SW_DIR": str(tmp_path / "nowhere")}

    report = node.run()

    assert (report["exit_code"], report["source"]) == (11003, "wrapper")
    assert str(tmp_path / "nowhere") in report["error"]


def test_configuration_that_is_not_the_planned_one_is_not_run(node: Node) -> None:
    generation(node)
    node.generate_job(1, 10)
    node.psets["pset_1.py"] += "# changed\n"

    report = node.run()

    assert (report["exit_code"], report["source"]) == (74, "wrapper")
    assert "pset_1.py is not the file that was planned" in report["error"]


def test_dataset_that_no_step_writes_is_refused(node: Node) -> None:
    generation(node)
    node.generate_job(1, 10)
    node.datasets.append(AOD)

    report = node.run()

    assert report["exit_code"] == 7002
    assert f"none has {AOD} in its outputs" in report["error"]
