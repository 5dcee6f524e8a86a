"""None of WMS2's secrets reaches a job: not by environment, files, ClassAd or submit file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from condor.layout import GroupLayout, NodeLayout
from condor.schedd import Schedd
from condor.submitfile import ALLOWED_KEYS, OPTIONAL_KEYS, Role, SubmitDescription, render_submit
from dags_app.planning.types import SitePool
from dags_app.services import production
from tests.integration.factories import make_workflow
from tests.pool_dags import WORKFLOW_ID, Bench, manifest, sandbox_assets

SECRETS = (
    "SECRET_KEY", "WMS2_AUDIT_KEY", "DATABASE_URL", "REDIS_URL", "WMS2_RUCIO_USERNAME", "WMS2_RUCIO_PASSWORD",
    "WMS2_CALLBACK_SECRET", "WMS2_OIDC_CLIENT_SECRET", "WMS2_CLIENT_CERT", "WMS2_CLIENT_KEY",
    "WMS2_TOKEN_CLIENT_SECRET_FILE", "WMS2_SERVICE_TOKEN_FILE", "WMS2_RUCIO_TOKEN_FILE",
    "WMS2_CREDENTIAL_DIR", "FLOWER_BASIC_AUTH",
)  # fmt: skip
CREDENTIAL_FILES = ("X509_USER_PROXY", "BEARER_TOKEN_FILE")  # what WMS2 may use towards its schedd
# Every variable, every file of the job's directory with its content, then the work that was planned.
SPY = """
import json, os
task = json.load(open(os.environ["WMS2_JOB"]))
top, seen = os.path.dirname(os.path.dirname(os.environ["WMS2_JOB"])), {}
for directory, _, names in os.walk(top):
    for name in names:
        path = os.path.join(directory, name)
        if not name.endswith(".gz"):
            seen[os.path.relpath(path, top)] = open(path, errors="replace").read()
json.dump({"environment": dict(os.environ), "files": seen}, open(SEEN, "w"))
plan = task["generate"]
with open(task["outputs"][0]["path"], "w") as out:
    print('{"format": "wms2-events", "version": 1}', file=out)
    for n in range(plan["first_event"], plan["last_event"] + 1):
        print(1, plan["first_lumi"], n, "ab", file=out)
"""


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Set every secret of WMS2 in the environment of this process, each to a different value."""
    values = {name: f"planted-{uuid4().hex}" for name in (*SECRETS, *CREDENTIAL_FILES)}
    for name, value in values.items():
        if name in CREDENTIAL_FILES:
            path = tmp_path / f"credential-{name}"
            path.write_text(value)
            path.chmod(0o600)
            value = str(path)
        monkeypatch.setenv(name, value)
    return values


@pytest.fixture
def own_bench(bench: Bench, planted: dict[str, str]) -> Iterator[Bench]:
    """Yield a bench whose bindings are started with the planted environment."""
    bench.schedd = Schedd()
    yield bench
    bench.clear()
    bench.schedd.close()


def test_a_real_job_sees_no_secret(own_bench: Bench, planted: dict[str, str], tmp_path: Path) -> None:
    seen_path = tmp_path / "seen.json"
    program = f"SEEN = {str(seen_path)!r}\n{SPY}"
    node = NodeLayout("proc_000000", memory_mb=256, cpus=1, disk_kb=1024, wall_minutes=10)
    group = GroupLayout(
        name="mg_000000",
        sites=own_bench.sites,
        nodes=[node],
        manifest=manifest(tmp_path / "storage", 1),
    )
    config = {"command": [sys.executable, "-S", "-c", program], "merge": {"tool": "events"}}
    payload = json.dumps(config).encode()
    assets = sandbox_assets(tmp_path / "assets")
    written = own_bench.write(own_bench.layout(groups=[group], assets=assets, payload=payload))
    name = own_bench.submit(written)
    ad = own_bench.finish(name, 300)

    assert ad.succeeded
    seen = json.loads(seen_path.read_text())
    assert ".job.ad" in seen["files"]
    text = json.dumps([seen, whole_ads(own_bench, name)])
    assert [secret for secret, value in planted.items() if value in text] == []
    assert not (set(planted) & set(seen["environment"]))


def whole_ads(bench: Bench, batch: str) -> list[str]:
    """Return every attribute of every job of the batch, DAGMans included, as history keeps them."""
    import htcondor2

    found = htcondor2.Schedd(htcondor2.Collector().locate(htcondor2.DaemonType.Schedd)).history(
        f'JobBatchName == "{batch}"', []
    )
    ads = [str(ad) for ad in found]
    assert ads
    return ads


@pytest.mark.django_db
def test_a_planned_directory_holds_no_secret(settings: Any, tmp_path: Path) -> None:
    planted, services = (
        {name: f"planted-{uuid4().hex}" for name in names}
        for names in (
            ("SECRET_KEY", "AUDIT_KEY", "CALLBACK_SECRET"),
            ("rucio_username", "rucio_password", "client_cert"),
        )
    )
    for name, value in planted.items():
        setattr(settings, name, value)
    settings.CMS_SERVICES = settings.CMS_SERVICES | services
    settings.SUBMIT_ROOT = str(tmp_path)
    workflow = make_workflow(
        input_dataset=None,
        total_events=100,
        splitting_algo="EventBased",
        splitting_params={"events_per_job": 50},
    )
    sites = SitePool(names=frozenset({"T2_CH_CERN"}), by_storage={})
    dag = production.plan_round(workflow=workflow, sites=sites, priority=5)

    files = [path for path in Path(dag.submit_dir).rglob("*") if path.is_file()]
    text = b"".join(path.read_bytes() for path in files)
    secrets = [*planted.values(), *services.values(), settings.DATABASES["default"]["PASSWORD"]]
    assert files
    assert [secret for secret in secrets if secret and secret.encode() in text] == []


def submit_text(role: Role, **changes: Any) -> str:
    description = SubmitDescription(
        role, "ana_test-v1", WORKFLOW_ID, held_grace_sec=60, max_transfer_output_mb=32, **changes
    )
    return render_submit(description)


@pytest.mark.parametrize("role", Role)
def test_a_submit_file_hands_over_no_credential_unless_there_is_one(role: Role) -> None:
    handing_over = ("getenv", "x509", "oauth", "token", "credential", "proxy", "cred", "run_as_owner")
    assert not [key for key in ALLOWED_KEYS[role] for word in handing_over if word in key.lower()]
    assert not [key for key in OPTIONAL_KEYS[role] if f"{key} = " in submit_text(role)]
    environment = [line for line in submit_text(role).splitlines() if line.startswith("environment")]
    assert environment in ([], ['environment = "WMS2_ATTEMPT=$(RETRY) WMS2_MEMORY_MB=$INT(memory_wanted)"'])


@pytest.mark.parametrize("role", set(Role) - {Role.LANDING})
def test_a_submit_file_names_the_token_of_its_own_workflow_only(role: Role) -> None:
    added = set(submit_text(role, with_token=True).splitlines()) - set(submit_text(role).splitlines())
    handle = WORKFLOW_ID.replace("-", "")

    assert added == {
        f'My.OAuthServicesNeeded = "cms*{handle}"',
        'environment = "WMS2_ATTEMPT=$(RETRY) WMS2_MEMORY_MB=$INT(memory_wanted)'
        f' WMS2_TOKEN_FILE=cms_{handle}.use"',
    }
