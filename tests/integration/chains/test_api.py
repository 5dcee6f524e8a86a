"""REST of templates, chains and announcements, and the console's pages of them."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from rest_framework.test import APIClient

from chains_app.models import Chain, Template
from tests.integration.chains.conftest import RAW, advanced, end_request, make_actual, start
from tests.integration.chains.documents import LINEAR, SCATTER

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fake_dbs")]
NEW = {
    "name": "muons",
    "document": LINEAR,
    "mask": "^/Muons/.*/RAW$",
    "cleanup": "safe",
    "reason": "campaign",
}


def load(client: APIClient, **changes: Any) -> Any:
    return client.post("/api/v1/templates", NEW | changes, format="json")


def test_template_moves_through_its_statuses(operator: APIClient) -> None:
    made = load(operator)
    assert (made.status_code, made.json()["status"], made.json()["version"]) == (201, "loaded", 1)
    copy = operator.post("/api/v1/templates/muons/1/clone", {"name": "muons", "reason": "r"}, format="json")
    assert (copy.status_code, copy.json()["version"], copy.json()["cleanup"]) == (201, 2, "safe")

    def act(number: int, name: str) -> int:
        answer = operator.post(f"/api/v1/templates/muons/{number}/{name}", {"reason": "r"}, format="json")
        return int(answer.status_code)

    assert act(1, "activate") == 200
    assert act(2, "activate") == 200
    assert list(Template.objects.order_by("version").values_list("status", flat=True)) == [
        "archived",
        "actual",
    ]
    assert act(2, "activate") == 409
    assert operator.delete("/api/v1/templates/muons/1", {"reason": "r"}, format="json").status_code == 409
    assert act(1, "activate") == 200
    assert act(1, "archive") == 200
    load(operator)
    assert operator.delete("/api/v1/templates/muons/3", {"reason": "r"}, format="json").status_code == 200
    body = operator.get("/api/v1/templates/muons/1").json()
    assert body["document"].strip() == LINEAR.strip()
    assert [one["id"] for one in body["workflow"]["steps"]] == ["skim", "slim", "join"]


def test_refused_document_names_every_problem_with_line_and_column(operator: APIClient) -> None:
    text = LINEAR.replace("data: skim/out", "data: nothing/out").replace("mode: merge", "mode: mix")

    answer = load(operator, document=text)

    assert answer.status_code == 422
    message = str(answer.json())
    assert "nothing/out" in message
    assert "mode" in message
    assert message.count("line ") >= 2
    assert Template.objects.count() == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "no spaces"}, "name"),
        ({"mask": "(a"}, "mask"),
        ({"mask": "(?=x)"}, "mask"),
        ({"mask": "."}, "mask"),
        ({"cleanup": "sometimes"}, "cleanup"),
        ({"document": "x" * 300_000}, "document"),
    ],
)
def test_bad_input_is_refused_by_field(operator: APIClient, changes: dict[str, Any], field: str) -> None:
    answer = load(operator, **changes)

    assert answer.status_code == 422
    assert field in str(answer.json())


def test_request_that_would_be_refused_is_found_at_upload(operator: APIClient) -> None:
    answer = load(operator, document=LINEAR.replace("files_per_job: 2", "files_per_job: -2", 1))

    assert answer.status_code == 422
    assert "files_per_job" in str(answer.json())
    assert "skim" in str(answer.json())


def test_mask_that_matches_everything_needs_a_confirmation(operator: APIClient) -> None:
    assert load(operator, mask=".", confirm=True).status_code == 201


def test_check_answers_without_storing(operator: APIClient) -> None:
    body = {"document": LINEAR, "mask": "Muons", "examples": [RAW, "/Electrons/A-v1/RAW"]}

    found = operator.post("/api/v1/templates/check", body, format="json").json()

    assert found["problems"] == []
    assert [one["matches"] for one in found["examples"]] == [True, False]
    assert found["steps"] == ["skim", "slim", "join"]
    assert Template.objects.count() == 0


def test_check_names_the_example_of_the_wrong_type(operator: APIClient) -> None:
    answer = operator.post("/api/v1/templates/check", {"examples": [RAW, 7]}, format="json")

    assert answer.status_code == 422
    assert answer.json()["errors"] == {"examples[1]": "This must be a string."}


def test_announced_dataset_starts_a_chain_that_can_be_seen(operator: APIClient) -> None:
    make_actual(SCATTER, cleanup="greedy")
    answer = operator.post("/api/v1/datasets", {"id": "rucio:1", "name": RAW}, format="json")
    assert (answer.status_code, answer.json()["status"]) == (201, "matched")
    number = answer.json()["chains"][0]
    chain = advanced(Chain.objects.get(pk=number))
    why = operator.get(f"/api/v1/chains/{number}/why").json()
    assert {one["reason"] for one in why["steps"] if one["step"] == "join"} == {"waits for skim"}
    end_request(chain, "skim")
    advanced(chain)

    def get(tail: str) -> Any:
        found = operator.get(f"/api/v1/{tail}")
        assert found.status_code == 200, found.content
        return found.json()

    detail = get(f"chains/{number}")
    assert [one["name"] for one in detail["steps"]] == ["join", "skim[0]", "skim[1]", "skim[2]"]
    graph = get(f"chains/{number}/graph")
    assert {one["id"]: one["level"] for one in graph["steps"]} == {"skim": 0, "join": 1}
    assert {"source": "skim:out", "target": "join"} in graph["edges"]
    assert get(f"chains/{number}/progress")["finals_done"] == 0
    why = get(f"chains/{number}/why")
    assert [one["step"] for one in why["steps"]] == ["join"]
    cleanup = get(f"chains/{number}/cleanup")
    waits = [one for one in cleanup["datasets"] if one["role"] == "intermediate"]
    assert all("step join" in str(one["waits_for"]) for one in waits)
    assert {one["producer"] for one in detail["datasets"]} == {"", "skim[0]", "skim[1]", "skim[2]", "join"}
    events = get(f"chains/{number}/events")["results"]
    assert {one["step"] for one in events if one["kind"] == "chain"} == {""}
    assert {one["step"] for one in events if one["kind"] == "step"} == {
        "join",
        "skim[0]",
        "skim[1]",
        "skim[2]",
    }
    output = chain.datasets.get(role="final").dataset_name
    lineage = get(f"datasets/lineage?name={output}")
    assert {one["made_from"] for one in lineage["ancestors"]} >= {RAW}
    assert output in {one["dataset_name"] for one in get(f"datasets/lineage?name={RAW}")["descendants"]}
    metrics = {one["step"]: one for one in get("metrics/templates")["steps"]}
    assert metrics["skim"]["finished"] == 3
    assert get("chains?status=running")["results"][0]["id"] == number
    assert get("announcements?status=matched")["results"][0]["uid"] == "rucio:1"


def test_start_by_name_takes_parameters_and_refuses_wrong_ones(operator: APIClient) -> None:
    make_actual(SCATTER)
    body = {"dataset": RAW, "parameters": {"runs": [7]}, "reason": "r"}

    made = operator.post("/api/v1/templates/first/1/start", body, format="json")
    wrong = operator.post(
        "/api/v1/templates/first/1/start", body | {"parameters": {"runs": "seven"}}, format="json"
    )

    assert made.status_code == 200, made.content
    assert Chain.objects.get().inputs == {"data": RAW, "runs": [7]}
    assert wrong.status_code == 422
    assert "runs" in str(wrong.json())


def test_pages_show_templates_chains_and_announcements(console: Client) -> None:
    template = make_actual(SCATTER)
    chain = advanced(start())
    pages = [
        "/admin/chains_app/template/", f"/admin/chains_app/template/{template.pk}/change/",
        "/admin/chains_app/template/new/", f"/admin/chains_app/template/{template.pk}/start/",
        "/admin/chains_app/chain/", f"/admin/chains_app/chain/{chain.pk}/change/",
        "/admin/chains_app/announcement/",
        f"/admin/chains_app/announcement/{chain.announcement.pk}/change/",
    ]  # fmt: skip
    for page in pages:
        answer = console.get(page)
        assert answer.status_code == 200, page
    shown = console.get(pages[5]).content.decode()
    assert "<svg" in shown
    assert "skim[2]" in shown


def test_console_form_loads_a_template_and_shows_its_problems(console: Client) -> None:
    bad = console.post("/admin/chains_app/template/new/", NEW | {"document": "class: Workflow"})
    assert "line 1" in bad.content.decode()

    made = console.post("/admin/chains_app/template/new/", NEW)

    assert made.status_code == 302
    assert Template.objects.get().created_by == "user:adam"


def test_console_form_starts_a_chain_from_the_inputs_of_the_template(console: Client) -> None:
    template = make_actual(SCATTER)
    page = f"/admin/chains_app/template/{template.pk}/start/"
    wrong = console.post(page, {"input_data": RAW, "input_runs": "[1.5]", "reason": "r"})
    assert wrong.status_code == 200

    done = console.post(page, {"input_data": RAW, "input_runs": "[4, 5]", "reason": "r"})
    assert done.status_code == 302
    assert Chain.objects.latest("id").inputs["runs"] == [4, 5]


def test_try_reads_files_of_the_callers_directory_prints_calls_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS2_FROM", str(tmp_path))
    document, inputs, results = (tmp_path / name for name in ("t.cwl", "i.json", "r.yml"))
    document.write_text(SCATTER)
    inputs.write_text(f'{{"data": "{RAW}", "runs": [1, 2]}}')
    results.write_text("skim: [{out: /A/B-v1/AOD, events: 3}, {out: /A/C-v1/AOD, events: 4}]")
    out = StringIO()

    call_command("template", "try", "t.cwl", "--inputs", "i.json", "--results", "r.yml", stdout=out)

    found = json.loads(out.getvalue())
    assert [one["step"] for one in found["calls"]] == ["skim", "skim", "join"]
    assert found["calls"][2]["inputs"]["data"] == ["/A/B-v1/AOD", "/A/C-v1/AOD"]
    assert found["outputs"] == {"events": [3, 4]}
    assert found["problems"] == found["skipped"] == []
    assert Chain.objects.count() == 0
