"""Nothing but the intended keys and values gets into a submit file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from condor import submitfile
from condor.submitfile import (
    Role,
    SubmitDescription,
    boost,
    parse_submit,
    quote,
    render_priority,
    render_submit,
    token_file_name,
)
from condor.types import RenderError
from tests.unit.condor.factories import WORKFLOW_ID
from wms2_project.errors import InvalidInput, Wms2Error

GOLDEN = Path(__file__).parent / "golden"


def describe(role: Role = Role.PROCESSING) -> SubmitDescription:
    return SubmitDescription(
        role=role,
        request_name="ana_Run2018_ReReco-v1",
        workflow_id=WORKFLOW_ID,
        held_grace_sec=60,
        max_transfer_output_mb=32,
    )


@pytest.mark.parametrize("role", Role)
def test_submit_file_is_the_golden_one(role: Role) -> None:
    assert render_submit(describe(role)) == (GOLDEN / role.submit_file).read_text()


@pytest.mark.parametrize("role", [Role.PROCESSING, Role.MERGE, Role.CLEANUP])
def test_submit_file_with_a_token_is_the_golden_one(role: Role) -> None:
    text = render_submit(replace(describe(role), with_token=True))
    assert text == (GOLDEN / "with_token" / role.submit_file).read_text()


def test_a_token_is_named_by_its_file_and_its_service_alike() -> None:
    entries = parse_submit(render_submit(replace(describe(), with_token=True)), Role.PROCESSING)
    handle = WORKFLOW_ID.replace("-", "")
    assert token_file_name(WORKFLOW_ID) == f"cms_{handle}.use"
    assert entries["My.OAuthServicesNeeded"] == f'"cms*{handle}"'
    assert f"WMS2_TOKEN_FILE={token_file_name(WORKFLOW_ID)}" in entries["environment"]


def test_a_proxy_is_given_to_jobs_that_use_storage_only() -> None:
    texts = {role: render_submit(replace(describe(role), job_proxy="/etc/wms2/proxy.pem")) for role in Role}
    assert {role for role, text in texts.items() if "\nx509userproxy = /etc/wms2/proxy.pem\n" in text} == {
        Role.PROCESSING, Role.RUNNER, Role.MERGE, Role.CLEANUP,
    }  # fmt: skip


def test_the_landing_gets_no_credential() -> None:
    landing = describe(Role.LANDING)
    assert render_submit(replace(landing, with_token=True, job_proxy="/p")) == render_submit(landing)


@pytest.mark.parametrize("path", ["proxy.pem", "/a b", "/a/../b", "/a\nqueue", "/$(X)", "/a,/b", "/"])
def test_a_proxy_that_is_no_plain_absolute_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput, match="job_proxy"):
        render_submit(replace(describe(), job_proxy=path))


@given(st.text(max_size=60))
def test_any_request_name_is_either_refused_or_quoted_whole(name: str) -> None:
    try:
        text = render_submit(replace(describe(), request_name=name))
    except Wms2Error:
        return
    assert parse_submit(text, Role.PROCESSING)["My.CMS_RequestName"] == f'"{name}"'


def test_the_required_system_is_in_the_submit_file() -> None:
    text = render_submit(replace(describe(), required_os="rhel8"))

    assert parse_submit(text, Role.PROCESSING)["My.REQUIRED_OS"] == '"rhel8"'


@pytest.mark.parametrize("bad", ["", "el8", "rhel8,rhel9", 'rhel8"', "rhel", "RHEL8", None])
def test_operating_system_unknown_to_pilots_is_refused(bad: str) -> None:
    with pytest.raises(InvalidInput, match="required_os"):
        render_submit(replace(describe(), required_os=bad))


@given(st.text(max_size=60))
def test_quote_never_ends_a_value_early(value: str) -> None:
    try:
        quoted = quote(value)
    except RenderError:
        return
    assert quoted == f'"{value}"'
    assert value.isascii()
    assert not set(value) & set('"\\$`;|\n\r\t\0')


@pytest.mark.parametrize(
    "bad", ['a"b', "a\\b", "$(X)", "a`b", "a;b", "a|b", "a\nb", "a\rb", "a\tb", "\x7f", "é"]
)
def test_quote_refuses_characters_that_could_end_a_string(bad: str) -> None:
    with pytest.raises(RenderError, match="is not allowed"):
        quote(bad)


@pytest.mark.parametrize(
    "path", ["../run.sh", "/bin/sh", "run.sh\nqueue 100", "run.sh, /etc/passwd", "$(HOME)/x"]
)
def test_paths_stay_inside_the_submit_directory(path: str) -> None:
    with pytest.raises(InvalidInput, match="executable"):
        render_submit(replace(describe(), executable=path))
    with pytest.raises(InvalidInput, match="sandbox"):
        render_submit(replace(describe(), sandbox=path))


def test_a_value_that_breaks_out_is_caught_by_reading_the_text_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submitfile, "quote", lambda value: f'"{value}"\nexecutable = /bin/sh')
    with pytest.raises(RenderError, match="twice, or the key is not allowed"):
        render_submit(describe())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("include : touch /tmp/pwned |", "not an assignment"),
        ("queue 100", "not an assignment"),
        ("+Owner = root", "not an assignment"),
        ("getenv = True", "not allowed"),
        ("universe = scheduler", "twice"),
        ("# comment", "not an assignment"),
        ("notification = never \\", "not an assignment"),
        ("notification = never\x0b", "not an assignment"),
    ],
)
def test_a_foreign_line_is_refused(line: str, message: str) -> None:
    text = render_submit(describe()).replace("queue\n", f"{line}\nqueue\n")
    with pytest.raises(RenderError, match=message):
        parse_submit(text, Role.PROCESSING)


@pytest.mark.parametrize("tail", ["queue\nqueue\n", "", "queue", "queue 2\n"])
def test_exactly_one_queue_ends_the_file(tail: str) -> None:
    text = render_submit(describe()).removesuffix("queue\n") + tail
    with pytest.raises(RenderError):
        parse_submit(text, Role.PROCESSING)


def test_a_missing_key_is_refused() -> None:
    text = "\n".join(line for line in render_submit(describe()).split("\n") if "periodic_remove" not in line)
    with pytest.raises(RenderError, match="lacks periodic_remove"):
        parse_submit(text, Role.PROCESSING)


def test_only_merge_and_cleanup_get_the_reports() -> None:
    inputs = {
        role: parse_submit(render_submit(describe(role)), role)["transfer_input_files"]
        for role in (Role.PROCESSING, Role.MERGE, Role.CLEANUP)
    }
    assert ["../reports" in value for value in inputs.values()] == [False, True, True]


def test_landing_is_not_pinned() -> None:
    assert submitfile.PINNED_SITE_INCLUDE not in render_submit(describe(Role.LANDING))


def test_started_work_has_the_highest_priority_and_landings_the_lowest() -> None:
    order = [Role.LANDING, Role.PROCESSING, Role.MERGE]
    assert sorted(order, key=boost) == order
    assert boost(Role.MERGE) == boost(Role.CLEANUP) > 1_000_000, "above the highest priority of a request"


def test_priority_file_holds_one_number() -> None:
    assert render_priority(-5) == "job_priority = -5\n"
    with pytest.raises(InvalidInput, match="priority"):
        render_priority(10**12)


def test_gpus_are_requested_by_processing_jobs_only() -> None:
    texts = {role: render_submit(replace(describe(role), gpus=2)) for role in Role}
    asking = {role for role, text in texts.items() if "request_gpus = 2\n" in text}
    assert asking == {Role.PROCESSING, Role.RUNNER}
    assert not any("request_gpus" in text for role, text in texts.items() if role not in asking)
