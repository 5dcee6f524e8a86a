"""The dashboard and the alert rules use only metrics, labels and parts of a real scrape."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from requests_app.states import RequestStatus
from tests.integration.factories import make_request
from wms2_project.observation.counters import ALL
from wms2_project.observation.heartbeat import queue_names

pytestmark = pytest.mark.django_db
DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = [DEPLOY / "prometheus/alerts.yml", DEPLOY / "grafana/wms2.json"]
KINDS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_metric_in_use_exists(viewer: APIClient, path: Path) -> None:
    make_request(status=RequestStatus.ACTIVE)
    body = list(text_string_to_metric_families(viewer.get("/api/v1/metrics").content.decode()))
    exist = {family.name + suffix for family in body for suffix in KINDS[family.type]}
    asked = set(re.findall(r"\bwms2_[a-z_]+[a-z]", path.read_text()))
    assert len(asked) > 8
    assert asked - exist == set()


def test_every_part_and_status_in_use_exists(viewer: APIClient) -> None:
    texts = "".join(path.read_text() for path in FILES).replace('\\"', '"')
    parts = {part["name"] for part in viewer.get("/api/v1/status").json()["parts"]}
    assert {f"workers.{queue}" for queue in queue_names()} <= parts
    asked = re.findall(r'part=~?"([^"]+)"', texts)
    assert {name for one in asked for name in one.split("|")} <= parts
    labels = {label for counted in ALL for label in counted.labels}
    assert labels >= {"method", "route", "status", "task", "outcome"}
