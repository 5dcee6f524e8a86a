"""Conversion of ads to values, and constraints of queries."""

from __future__ import annotations

from typing import Any

import pytest

from condor.bounded import BindingsError
from condor.schedd import Schedd, build_ad, check_batch_name, gather_ads
from condor.types import JobStatus, Presence, ScheddLimits
from wms2_project.errors import InvalidInput, ScheddUnreachable, ServiceRejected

NAME = "wms2-0b8e5a3c"
OUTER = {
    "JobBatchName": NAME, "ClusterId": 40, "JobStatus": 2, "QDate": 1_794_802_753, "DAG_NodesTotal": 5,
    "DAG_NodesDone": 2, "DAG_NodesFailed": 1, "DAG_JobsRunning": 2,
}  # fmt: skip
INNER = {"JobBatchName": NAME, "ClusterId": 41, "JobStatus": 2, "DAGManJobId": 40}
DONE = OUTER | {"JobStatus": 4, "ExitCode": 0, "DAG_NodesDone": 5, "DAG_NodesFailed": 0}


class Answers:
    """Replacement of the bindings: returns prepared answers and records calls."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, operation: str, *, timeout_sec: float, **arguments: Any) -> Any:
        self.asked.append((operation, arguments))
        answer = self.answers[operation]
        if isinstance(answer, Exception):
            raise answer
        return answer


def schedd_with(**answers: Any) -> tuple[Schedd, Answers]:
    schedd, stand_in = Schedd(), Answers(**answers)
    schedd._calls = stand_in  # type: ignore[assignment]
    return schedd, stand_in


def test_jobs_are_counted_over_the_inner_dagmans_and_groups_by_the_outer() -> None:
    ads = [
        INNER | {"DAG_JobsIdle": 3, "DAG_JobsRunning": 4, "DAG_JobsHeld": 1},
        OUTER,
        INNER | {"ClusterId": 42, "JobStatus": 5, "DAG_JobsIdle": 1},
    ]
    ad = gather_ads(ads)[NAME]
    assert (ad.cluster_id, ad.nodes_total, ad.nodes_done, ad.nodes_failed) == (40, 5, 2, 1)
    assert (ad.jobs_idle, ad.jobs_running, ad.jobs_held) == (4, 4, 1)
    assert (ad.groups_running, ad.groups_held) == (1, 1)
    assert ad.submitted_at is not None
    assert ad.submitted_at.isoformat() == "2026-11-16T04:19:13+00:00"


def test_inner_dagmans_alone_do_not_count_as_a_dag() -> None:
    assert gather_ads([INNER]) == {}


@pytest.mark.parametrize(
    ("changes", "finished", "succeeded"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"ExitCode": 1}, True, False),
        ({"JobStatus": 3}, True, False),
        ({"DAG_NodesDone": 4}, True, False),
        ({"DAG_NodesTotal": 0, "DAG_NodesDone": 0}, True, False),
    ],
)
def test_success_needs_exit_zero_and_every_group_done(
    changes: dict[str, int], finished: bool, succeeded: bool
) -> None:
    assert build_ad(DONE | changes, [], finished=finished).succeeded is succeeded


@pytest.mark.parametrize(
    "name", ['wms2-x" || true || "', "other-x", "wms2-a b", "wms2-\n", "", "wms2-a,wms2-b"]
)
def test_batch_names_cannot_widen_a_query(name: str) -> None:
    schedd, stand_in = schedd_with()
    for ask in (
        lambda: check_batch_name(name),
        lambda: schedd.find_dag(name),
        lambda: schedd.query_dags([NAME, name]),
        lambda: schedd.stuck_jobs([NAME, name], idle_sec=60),
        lambda: schedd.running_jobs([NAME, name], longer_than_sec=60),
        lambda: schedd.remove_jobs(name, [7], reason="x"),
        lambda: schedd.remove_dag(name, reason="x"),
    ):
        with pytest.raises(InvalidInput, match="batch_name"):
            ask()
    assert stand_in.asked == []


def test_no_names_cause_no_call() -> None:
    schedd, stand_in = schedd_with()
    assert schedd.query_dags([]) == {}
    assert stand_in.asked == []


def test_all_dags_are_one_query() -> None:
    schedd, stand_in = schedd_with(query=[OUTER, INNER])
    assert list(schedd.query_dags()) == [NAME]
    assert [operation for operation, _ in stand_in.asked] == ["query"]


def test_stuck_jobs_are_one_bounded_query_with_their_group() -> None:
    ad = {
        "JobBatchName": NAME,
        "DAGNodeName": "proc_000003",
        "Iwd": "/srv/dags/x/mg_000001/reports",
        "HoldReason": "gone over\nmemory limit",
        "HoldReasonCode": 34,
        "EnteredCurrentStatus": 1_794_802_753,
    }
    schedd, stand_in = schedd_with(query=[ad, {"JobBatchName": NAME}])

    job, bare = schedd.stuck_jobs([NAME], idle_sec=60)

    assert (job.group, job.node, job.hold_code, job.reason) == (
        "mg_000001",
        "proc_000003",
        34,
        "gone over memory limit",
    )
    assert job.since.isoformat() == "2026-11-16T04:19:13+00:00"
    assert (bare.group, bare.hold_code, bare.reason) == ("", 0, "")
    ((_, asked),) = stand_in.asked
    assert asked["limit"] > 0
    assert schedd.stuck_jobs([], idle_sec=60) == []


def test_running_jobs_are_one_bounded_query_with_their_cpu_time() -> None:
    ad = {
        "JobBatchName": NAME, "DAGNodeName": "proc_000003", "Iwd": "/srv/dags/x/mg_000001/reports",
        "ClusterId": 77, "DESIRED_Sites": "T2_CH_CERN", "JobCurrentStartExecutingDate": 1_794_802_753,
        "RemoteUserCpu": 5.5, "RemoteSysCpu": 2,
    }  # fmt: skip
    unheard = {"JobBatchName": NAME, "ClusterId": 78, "JobCurrentStartExecutingDate": 1_794_802_753}
    schedd, stand_in = schedd_with(query=[ad, unheard])

    job, fresh = schedd.running_jobs([NAME], longer_than_sec=900)

    assert (job.group, job.node, job.cluster_id, job.site) == ("mg_000001", "proc_000003", 77, "T2_CH_CERN")
    assert (job.started_at.isoformat(), job.cpu_sec) == ("2026-11-16T04:19:13+00:00", 7.5)
    assert fresh.cpu_sec == 0
    ((_, asked),) = stand_in.asked
    assert 'CMS_NodeRole == "processing"' in asked["constraint"]
    assert asked["limit"] > 0
    assert schedd.running_jobs([], longer_than_sec=900) == []


def test_only_running_jobs_of_the_batch_are_removed() -> None:
    schedd, stand_in = schedd_with(act={"TotalSuccess": 2})
    assert schedd.remove_jobs(NAME, [77, 78], reason="hanging job") == 2
    ((_, asked),) = stand_in.asked
    chosen = "(ClusterId == 77 || ClusterId == 78)"
    assert (
        asked["constraint"] == f'JobBatchName == "{NAME}" && JobUniverse == 5 && JobStatus == 2 && {chosen}'
    )
    assert schedd.remove_jobs(NAME, [], reason="unknown DAG") == 0
    assert len(stand_in.asked) == 1


def test_silence_is_unknown_and_never_absent() -> None:
    schedd, _ = schedd_with(query=ScheddUnreachable("no answer"))
    assert schedd.find_dag(NAME) == (Presence.UNKNOWN, None)


def test_silent_history_is_unknown_too() -> None:
    schedd, _ = schedd_with(query=[], history=BindingsError("no answer"))
    assert schedd.find_dag(NAME) == (Presence.UNKNOWN, None)


def test_absent_needs_queue_and_history_to_say_so() -> None:
    schedd, stand_in = schedd_with(query=[], history=[])
    assert schedd.find_dag(NAME, not_before=10_000.5) == (Presence.ABSENT, None)
    assert [operation for operation, _ in stand_in.asked] == ["query", "history"]


def test_a_search_of_history_ends_at_the_first_match_or_an_hour_before_the_time_given() -> None:
    schedd, stand_in = schedd_with(query=[], history=[])

    schedd.find_dag(NAME, not_before=10_000.5)
    schedd.finished_dag(NAME, 40, not_before=10_000.5)

    searches = [asked for operation, asked in stand_in.asked if operation == "history"]
    assert [search["limit"] for search in searches] == [1, 1]
    # removed and spooled jobs may stay in the queue long after their last change of status
    bound = "JobStatus == 4 && StageInFinish is undefined && EnteredCurrentStatus < 6400"
    assert [search["since"] for search in searches] == [bound, bound]


def test_a_dag_in_history_is_found_finished() -> None:
    schedd, _ = schedd_with(query=[], history=[DONE])
    presence, ad = schedd.find_dag(NAME)
    assert presence is Presence.FOUND
    assert ad is not None
    assert (ad.finished, ad.job_status) == (True, JobStatus.COMPLETED)


def test_submission_that_reports_an_error_but_is_queued_counts(tmp_path: Any) -> None:
    schedd, _ = schedd_with(submit_dag=BindingsError("connection reset"), query=[OUTER])
    assert schedd.submit_dag(tmp_path / "workflow.dag", NAME) == 40


def test_submission_refused_by_a_schedd_that_answers_is_permanent(tmp_path: Any) -> None:
    schedd, _ = schedd_with(submit_dag=BindingsError("MAX_JOBS_PER_OWNER"), query=[])
    with pytest.raises(ServiceRejected, match="MAX_JOBS_PER_OWNER"):
        schedd.submit_dag(tmp_path / "workflow.dag", NAME)


def test_submission_refused_and_then_silence_is_unreachable(tmp_path: Any) -> None:
    schedd, _ = schedd_with(submit_dag=BindingsError("reset"), query=BindingsError("reset"))
    with pytest.raises(ScheddUnreachable):
        schedd.submit_dag(tmp_path / "workflow.dag", NAME)


def test_denied_action_is_rejected() -> None:
    schedd, _ = schedd_with(act={"TotalSuccess": 0, "TotalPermissionDenied": 2})
    with pytest.raises(ServiceRejected, match="denies"):
        schedd.hold_dag(NAME, reason="x")


def test_reason_reaches_the_schedd_as_one_printable_line() -> None:
    schedd, stand_in = schedd_with(act={"TotalSuccess": 1})
    assert schedd.release_dag(NAME, reason="two\nlines\x00" + "x" * 500) == 1
    reason = stand_in.asked[0][1]["reason"]
    assert reason.startswith("two lines ")
    assert len(reason) == 200


def test_priority_of_a_missing_dag_changes_nothing() -> None:
    schedd, _ = schedd_with(query=[])
    assert schedd.set_priority(NAME, 5) == 0


def test_ping_is_a_yes_or_no() -> None:
    assert schedd_with(query=[])[0].ping()
    assert not schedd_with(query=BindingsError("down"))[0].ping()


def test_limits_are_read_from_the_schedds_ad() -> None:
    result = {
        "MaxRunningSchedulerJobsPerOwner": 200,
        "StartSchedulerUniverse": "TotalSchedulerJobsRunning < 500",
    }
    schedd, _ = schedd_with(describe=result, query=[{}, {}, {}])
    assert schedd.limits() == ScheddLimits(200, 500, 3)
    assert schedd.limits().allowed == 200


def test_no_limits_mean_no_bound() -> None:
    schedd, _ = schedd_with(describe={"StartSchedulerUniverse": "true"}, query=[])
    assert schedd.limits() == ScheddLimits(None, None, 0)
    assert schedd.limits().allowed is None


def test_name_is_queried_once() -> None:
    schedd, stand_in = schedd_with(describe={"Name": "here@pool"})
    assert (schedd.name, schedd.name) == ("here@pool", "here@pool")
    assert len(stand_in.asked) == 1


def test_schedd_names_are_plain() -> None:
    with pytest.raises(InvalidInput, match="schedd"):
        Schedd('x" || true')


def test_leftovers_of_a_dag_are_counted_and_removed() -> None:
    schedd, stand_in = schedd_with(query=[{"ClusterId": 41}, {"ClusterId": 42}], act={"TotalSuccess": 2})
    assert schedd.clear_batch(NAME, reason="stop") == 2
    assert stand_in.asked[-1][1] == {
        "schedd": "", "action": "Remove", "constraint": f'JobBatchName == "{NAME}"', "reason": "stop",
    }  # fmt: skip


def test_an_empty_queue_is_not_changed() -> None:
    schedd, stand_in = schedd_with(query=[])
    assert schedd.clear_batch(NAME, reason="stop") == 0
    assert [operation for operation, _ in stand_in.asked] == ["query"]


def test_waiting_landings_get_the_sites_of_their_group() -> None:
    lists = ["T1_US_FNAL,T2_CH_CERN", "T2_CH_CERN", "T1_US_FNAL,T2_CH_CERN", "T1_US_FNAL", "T1_US_FNAL"]
    ads = [
        {"ClusterId": 40 + number, "Iwd": f"/srv/dags/1/mg_{number:06d}", "DESIRED_Sites": sites}
        for number, sites in enumerate(lists)
    ]
    schedd, stand_in = schedd_with(query=ads, edit=1)
    cern = ["T2_CH_CERN"]
    wanted = {"mg_000000": cern, "mg_000001": cern, "mg_000002": cern, "mg_000003": [], "mg_000009": cern}
    assert schedd.place_landings(NAME, wanted) == 2
    edits = [arguments for operation, arguments in stand_in.asked if operation == "edit"]
    assert [(edit["attribute"], edit["value"]) for edit in edits] == [
        ("DESIRED_Sites", '"T2_CH_CERN"'), ("DESIRED_Sites", '"none"'),
    ]  # fmt: skip
    assert edits[0]["constraint"].endswith("&& member(ClusterId, {40, 42})")
    assert edits[1]["constraint"].endswith("&& member(ClusterId, {43})")


def test_no_site_name_leaves_its_quotes() -> None:
    schedd, _ = schedd_with(query=[], edit=1)
    with pytest.raises(InvalidInput):
        schedd.place_landings(NAME, {"mg_000000": ['T2_CH_CERN"']})


def test_a_held_dag_removed_without_resume_is_not_released_and_its_jobs_are_removed() -> None:
    schedd, stand_in = schedd_with(query=[{"ClusterId": 40}], act={"TotalSuccess": 2})
    assert schedd.remove_dag(NAME, reason="aborted", resumable=False) == 2
    acts = [(arguments["action"], arguments["constraint"]) for _, arguments in stand_in.asked]
    batch = f'JobBatchName == "{NAME}"'
    assert acts == [("Remove", f"{batch} && JobUniverse == 7"), ("Remove", batch)]
