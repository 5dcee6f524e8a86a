"""Schemathesis against a separate server: the server conforms to the description."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from chains_app.services.announcing import announce
from requests_app.states import RequestStatus
from tests.integration.factories import (
    make_dag,
    make_group,
    make_request,
    make_round,
    make_site,
    make_template,
    make_token,
    make_user,
)
from wms2_project.access.roles import Role

EXAMPLES = 6  # for each operation: a bound in time would test less on a busy machine
NAMES = """
hooks = "hooks"

[parameters]
"path.name" = "known"
"path.request_id" = "REQUEST"
"path.workflow_id" = "WORKFLOW"
"path.dag_id" = "DAG"
"path.announcement_id" = "ANNOUNCEMENT"
"path.template" = "known"

[generation]
allow-x00 = false  # PostgreSQL stores none

# What a GET is described to take, it must take. A write may be well-formed and still be refused (422):
# a document has rules and a tarball a format that no schema can tell, a ban must end in the future, a
# change must change something.
[[operations]]
include-method = ["POST", "PUT", "PATCH", "DELETE"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 412, 422, 502, 503]

# Its two numbers are refused together: they would make too many steps.
[[operations]]
include-path-regex = "/metrics/throughput$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 422]

# `at` must lie between the creation of the request and the present.
[[operations]]
include-name = "GET /api/v1/requests/{name}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 422]

# A node is named together with its group.
[[operations]]
include-path-regex = "/dags/.*/logs$"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 422]

[[operations]]
include-path-regex = "/sites/"
parameters = { "path.name" = "T2_CH_CERN" }

[[operations]]
include-path-regex = "/chains/"
parameters = { "path.number" = "CHAIN" }

[[operations]]
include-path-regex = "/templates/"
parameters = { "path.number" = "1" }
"""
# The description is of the whole answer; what `fields` leaves of it is tested in test_conventions.
HOOKS = """
import re
import schemathesis

@schemathesis.hook
def before_call(context, case, kwargs):
    for one in case.operation.query:
        legal = one.definition["schema"].get("pattern", "")
        if one.name == "fields" and re.fullmatch(legal, str(case.query.get("fields"))):
            del case.query["fields"]
"""


@pytest.mark.django_db(transaction=True)
def test_schemathesis_finds_nothing(live_server: Any, reqmgr2: None, tmp_path: Path, settings: Any) -> None:
    settings.THROTTLE_RATES = dict.fromkeys(settings.THROTTLE_RATES, "100000/minute")  # see test_throttles
    token = make_token(make_user("fuzz", role=Role.ADMIN))
    row = make_request(status=RequestStatus.ACTIVE, request_name="known")
    make_group(make_round(row.workflow))
    dag = make_dag(row.workflow.rounds.get())
    make_site()
    template = make_template("known")
    announced = announce(uid="1", name="/Muons/Run2031A-v1/RAW", template=template.name, actor="user:ana")
    ids = {
        **{"REQUEST": row.pk, "WORKFLOW": row.workflow_id, "DAG": dag.pk},
        **{"ANNOUNCEMENT": announced.pk, "CHAIN": announced.chains.get().pk},
    }
    configuration = NAMES
    for name, value in ids.items():
        configuration = configuration.replace(f'"{name}"', f'"{value}"')
    (tmp_path / "schemathesis.toml").write_text(configuration)
    (tmp_path / "hooks.py").write_text(HOOKS)
    schema = tmp_path / "schema.json"  # from a file: its loader gives a busy server ten seconds
    call_command("spectacular", file=str(schema), format="openapi-json")
    found = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(schema), "--url", live_server.url),
            *(
                "--header",
                f"Authorization: Bearer {token}",
                "--max-examples",
                str(EXAMPLES),
                "--workers",
                "1",
            ),
            *("--phases", "fuzzing", "--no-shrink", "--no-color", "--seed", "7"),
            *("--request-timeout", "120", "--suppress-health-check", "all"),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert found.returncode == 0, found.stdout[-60000:] + found.stderr[-2000:]
    assert re.search(r"\d+ generated", found.stdout), found.stdout[-3000:]
