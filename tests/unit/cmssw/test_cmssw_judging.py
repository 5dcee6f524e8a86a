"""Start of cmsRun on a node, and the exit codes of its ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.cmssw import cmsrun
from sandbox.cmssw.cmsrun import (
    Run,
    bound_places,
    build_command,
    clean_environment,
    find_software,
    framework_code,
    judge,
)
from sandbox.cmssw.tweaks import Task
from sandbox.failure import JobFailure

SUCCESS = "<FrameworkJobReport>\n</FrameworkJobReport>\n"
FAILED = (
    '<FrameworkJobReport><FrameworkError ExitStatus="8009" Type="Fatal">bad</FrameworkError>'
    "</FrameworkJobReport>"
)


def ended(directory: Path, *, stage: str = "cmsRun", status: int = 0, report: str | None = SUCCESS) -> int:
    """Return the code of a cmsRun that left these files; 0 for a success."""
    (directory / "stage").write_text(f"{stage}\n")
    if report is not None:
        (directory / "FrameworkJobReport.xml").write_text(report)
    try:
        judge("step 1", directory, status)
    except JobFailure as failure:
        return failure.code
    return 0


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        ("software", 11003),
        ("project", 71),
        ("enter", 72),
        ("runtime", 73),
        ("pset", 7002),
        ("configure", 50513),
        ("", 11003),
    ],
)
@pytest.mark.parametrize("status", [1, 71, 72, 73, 74, 127, -9])
def test_set_up_errors_are_classified_by_stage_regardless_of_the_status(
    tmp_path: Path, stage: str, code: int, status: int
) -> None:
    assert ended(tmp_path, stage=stage, status=status, report=None) == code


@pytest.mark.parametrize(
    ("status", "report", "code"),
    [
        (0, SUCCESS, 0),
        (73, FAILED, 8009),  # 8009 modulo 256
        (0, FAILED, 8009),
        (0, None, 50115),
        (1, None, 50115),
        (-6, None, 50115),
        (134, None, 50115),
        (-9, None, 137),
        (137, None, 137),
        (0, SUCCESS[:10], 50115),
        (72, SUCCESS, 50115),  # not "cannot enter scram project"
        (65, SUCCESS, 8001),
        (-11, SUCCESS, 139),
        (139, SUCCESS, 139),
        (1, SUCCESS, 50115),
        (0, "<Other/>", 50115),
        (0, '<FrameworkJobReport><SkippedFile Pfn="x" Lfn="/store/a.root"/></FrameworkJobReport>', 8020),
    ],
)
def test_cmsrun_is_judged_by_its_report(tmp_path: Path, status: int, report: str | None, code: int) -> None:
    assert ended(tmp_path, status=status, report=report) == code


def test_node_that_never_began_has_no_software(tmp_path: Path) -> None:
    with pytest.raises(JobFailure) as caught:
        judge("step 1", tmp_path, 255)

    assert caught.value.code == 11003


@pytest.mark.parametrize("code", [8001, 8006, 8020, 8022, 8028, 8501, 7002])
def test_status_leads_back_to_the_framework_code(code: int) -> None:
    assert framework_code(code % 256) == code


def software(tmp_path: Path, *containers: str) -> Path:
    place = tmp_path / "software"
    (place / "common").mkdir(parents=True)
    (place / "cmsset_default.sh").touch()
    for name in containers:
        (place / "common" / name).touch()
    return place


@pytest.mark.parametrize("variable", ["VO_CMS_SW_DIR", "OSG_APP", "CVMFS"])
def test_software_is_found_where_grids_keep_it(tmp_path: Path, variable: str) -> None:
    below = {"VO_CMS_SW_DIR": "", "OSG_APP": "cmssoft/cms", "CVMFS": "cms.cern.ch"}[variable]
    place = tmp_path / below
    place.mkdir(parents=True, exist_ok=True)
    (place / "cmsset_default.sh").touch()

    assert find_software({variable: str(tmp_path)}) == place


def test_node_without_software_is_a_failure_of_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cmsrun, "CVMFS", tmp_path / "cvmfs")

    with pytest.raises(JobFailure, match=r"no cmsset_default\.sh on this node") as caught:
        find_software({"VO_CMS_SW_DIR": str(tmp_path / "nowhere")})

    assert (caught.value.code, caught.value.source) == (11003, "wrapper")


def run(tmp_path: Path, arch: str = "el8_amd64_gcc12", inputs: tuple[str, ...] = ()) -> Run:
    return Run(
        "step 1", tmp_path / "work/step0", "CMSSW_14_0_0", arch, Task(inputs=inputs), {}, ("generate",)
    )


def test_right_system_needs_no_container(tmp_path: Path) -> None:
    place = software(tmp_path)

    command = build_command(run(tmp_path), place, 8)

    assert command == ["/bin/bash", "cmsrun.sh", str(place), "CMSSW_14_0_0", "el8_amd64_gcc12", "generate"]


def test_unknown_arch_is_run_as_it_is(tmp_path: Path) -> None:
    assert build_command(run(tmp_path, "osx10_amd64_gcc1"), software(tmp_path), None)[0] == "/bin/bash"


def test_other_system_is_entered_by_the_container_of_cvmfs(tmp_path: Path) -> None:
    place = software(tmp_path, "cmssw-el8")

    command = build_command(run(tmp_path), place, 9)

    assert command[0] == str(place / "common/cmssw-el8")
    assert command[command.index("--pwd") + 1] == str(tmp_path / "work/step0")
    after = command[command.index("--command-to-run") + 1 :]
    assert after[:2] == ["/bin/bash", "cmsrun.sh"]
    assert not any(" " in word for word in after)


def test_container_that_is_missing_is_a_failure_of_the_node(tmp_path: Path) -> None:
    with pytest.raises(JobFailure, match=r"needs el8, this node is el9 and has no .*cmssw-el8") as caught:
        build_command(run(tmp_path), software(tmp_path), 9)

    assert (caught.value.code, caught.value.source) == (11003, "wrapper")


def test_container_sees_the_input_and_the_software(tmp_path: Path) -> None:
    place = software(tmp_path)
    inputs = ("file:/storage/a/x.root", "file:/storage/a/y.root", "root://host//store/z.root")

    assert bound_places(run(tmp_path, inputs=inputs), place) == sorted(
        ["/storage/a", str(tmp_path / "work"), str(place)]
    )
    assert bound_places(run(tmp_path), Path("/cvmfs/cms.cern.ch")) == [str(tmp_path / "work")]


def test_environment_does_not_lead_other_pythons_astray() -> None:
    given = {"PATH": "/bin", "PYTHONPATH": "/x", "PYTHONHOME": "/y", "LD_LIBRARY_PATH": "/z", "HOME": "/home"}

    assert clean_environment(given) == {"PATH": "/bin", "HOME": "/home"}
