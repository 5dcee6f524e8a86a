"""One request does not fill the submit host: what it sends, what its jobs return, what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from condor.submitfile import Role
from requests_app.documents.limits import MAX_PAYLOAD_BYTES
from requests_app.models import Request
from tests.integration.factories import DOCUMENT
from tests.integration.recovery.conftest import CERN, _own_submit_root, planned, sites

__all__ = ["_own_submit_root", "planned", "sites"]
pytestmark = pytest.mark.django_db


# What a request sends


@pytest.mark.parametrize("inside", ["payload_config", "passed on"])
def test_a_large_payload_configuration_is_refused_by_field_size_and_limit(
    requestor: APIClient, inside: str
) -> None:
    much = {"much": "x" * 900_000}
    body = DOCUMENT | ({"payload_config": much} if inside == "payload_config" else {"Much": much})
    answer = requestor.post("/api/v1/requests", body, format="json")
    assert answer.status_code == 422, answer.content[:300]
    told = answer.json()["errors"]["payload_config"]
    assert "9000" in str(told)
    assert str(MAX_PAYLOAD_BYTES) in str(told)
    assert not Request.objects.exists()


def test_the_payload_configuration_is_on_disk_once_per_dag(planned: Any) -> None:
    config = {"command": ["/bin/true"], "data": "x" * 90_000}
    round_ = planned([[CERN]] * 40, payload_config=config, jobs_per_group=1)
    directory = Path(round_.dag.submit_dir)
    assert json.loads((directory / "payload.json").read_text()) == config
    assert len(list(directory.glob("mg_*"))) == 40
    size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    assert size < 1_000_000, "40 copies would be 3.6 MB"


# What its jobs return


def test_every_job_with_file_transfer_has_a_limit_of_what_it_returns(planned: Any, settings: Any) -> None:
    settings.MAX_TRANSFER_OUTPUT_MB = 7
    directory = Path(planned([[CERN]]).dag.submit_dir)
    for role in Role:
        text = (directory / role.submit_file).read_text()
        assert ("max_transfer_output_mb = 7\n" in text) is ("should_transfer_files = YES\n" in text)
        assert ("should_transfer_files = NO\n" in text) is (role is Role.LANDING)
