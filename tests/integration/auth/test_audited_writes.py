"""Every endpoint that writes leaves an audit row with its actor: the endpoints are taken from the URLconf."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from chains_app.services.announcing import announce
from chains_app.services.steering import reject_step
from chains_app.states import TemplateStatus
from dags_app.models import DAG, Schedd
from dags_app.states import DAGStatus
from requests_app.models import Alert
from requests_app.services.alerts import raise_alert
from requests_app.services.importing import import_request
from requests_app.states import RequestStatus
from sites_app.services.bans import ban_site
from tests.integration.chains.documents import LINEAR
from tests.integration.conftest import ApiAs
from tests.integration.factories import (
    DOCUMENT,
    ago,
    make_chain,
    make_dag,
    make_quarantined,
    make_request,
    make_round,
    make_site,
    make_template,
    make_token,
    make_user,
)
from wms2_project.access.roles import Role
from wms2_project.api.endpoints import endpoints
from wms2_project.models import X509, ApiToken, AuditEvent, Identity

pytestmark = pytest.mark.django_db
Call = tuple[str, dict[str, Any] | bytes]  # the path, and a body that is accepted
WHY = {"reason": "a test"}
SCHEDD = "one@pool"
RAW = DOCUMENT["input_dataset"]
TEMPLATE = "templates/<template_name:template>/<int:number>"
CHAIN = "chains/<int:number>"
ANNOUNCEMENT = "announcements/<int:announcement_id>"


def _request(status: RequestStatus, path: str = "", **body: Any) -> Call:
    return f"requests/{make_request(status=status).request_name}{path}", WHY | body


def _site(action: str) -> Call:
    return f"sites/{make_site()}/{action}", WHY


def _banned() -> Call:
    site = make_site()
    ban_site(site=site, workflow=None, reason="a test", actor="user:olga", now=timezone.now())
    return f"sites/{site}/ban", WHY


def _rescuable() -> Call:
    dag = DAG.objects.get(pk=_dag("rescue", DAGStatus.REMOVED)[0].split("/")[1])
    return f"requests/{dag.workflow.request_name}/rescue", WHY


def _dag(action: str, status: DAGStatus = DAGStatus.RUNNING) -> Call:
    ended = ago(minutes=1) if status is DAGStatus.REMOVED else None
    row = make_request(status=RequestStatus.HELD if ended else RequestStatus.ACTIVE)
    dag = make_dag(make_round(row.workflow), status=status, completed_at=ended)
    return f"dags/{dag.pk}/{action}", WHY


def _restart() -> Call:
    row, _ = import_request(document=DOCUMENT, actor="user:ana")
    return f"requests/{row}/restart", WHY


def _lost() -> Call:
    Schedd.objects.create(name=SCHEDD, silent_since=ago(hours=1))
    return f"schedds/{SCHEDD}/fence", WHY


def _alert() -> Call:
    raise_alert(request=make_request(), kind="slow_dag", message="it takes long")
    return f"alerts/{Alert.objects.get().pk}/acknowledge", WHY


def _quarantined() -> Call:
    dag = make_dag(make_round(make_request().workflow))
    return f"quarantine/{make_quarantined(dag).pk}/lift", WHY


def tarball() -> bytes:
    """Return a tarball with one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("run"))
    return made.getvalue()


def _token() -> Call:
    make_token(make_user("bob"))
    return f"tokens/{ApiToken.objects.get(user__username='bob').pk}", WHY


def _identity() -> Call:
    identity = Identity.objects.create(user=make_user("bob"), issuer=X509, subject="/DC=ch/CN=Bob")
    return f"identities/{identity.pk}", WHY


def _template(action: str = "", status: TemplateStatus = TemplateStatus.LOADED, **body: Any) -> Call:
    row = make_template(status=status, document=LINEAR)
    return f"templates/{row.name}/{row.version}{action}", WHY | body


def _chain(action: str, **body: Any) -> Call:
    return f"chains/{make_chain(approval=True).pk}/{action}", WHY | body


def _retry() -> Call:
    chain = make_chain(approval=True)
    reject_step(chain=chain, step="skim", actor="user:olga", reason="a test")
    return f"chains/{chain.pk}/retry", WHY | {"step": "skim"}


def _dead_letter(action: str) -> Call:
    row = announce(uid="1", name=RAW, actor="user:ana")
    return f"announcements/{row.pk}/{action}", WHY


def _dead_letters() -> Call:
    announce(uid="1", name=RAW, actor="user:ana")
    make_template()
    return "announcements/replay", WHY


# A successful call of each writing endpoint. A new endpoint needs a line here.
CALLS: dict[tuple[str, str], Callable[[], Call]] = {
    ("POST", "requests"): lambda: ("requests", DOCUMENT),
    ("POST", "requests/batch"): lambda: ("requests/batch", {"requests": [DOCUMENT]}),
    ("PATCH", "requests/<request_name:name>"): lambda: _request(RequestStatus.QUEUED, priority=7),
    ("DELETE", "requests/<request_name:name>"): lambda: _request(RequestStatus.QUEUED),
    ("POST", "requests/<request_name:name>/abort"): lambda: _request(RequestStatus.QUEUED, "/abort"),
    ("POST", "requests/<request_name:name>/release"): lambda: _request(RequestStatus.HELD, "/release"),
    ("POST", "requests/<request_name:name>/fail"): lambda: _request(RequestStatus.HELD, "/fail"),
    ("POST", "requests/<request_name:name>/fail-files"): lambda: _request(
        RequestStatus.HELD, "/fail-files", state="fresh"
    ),
    ("POST", "requests/<request_name:name>/invalidate"): lambda: _request(
        RequestStatus.COMPLETED, "/invalidate"
    ),
    ("POST", "requests/<request_name:name>/share"): lambda: _request(RequestStatus.HELD, "/share"),
    ("POST", "requests/<request_name:name>/stop"): lambda: _request(RequestStatus.ACTIVE, "/stop"),
    ("POST", "requests/<request_name:name>/submit"): lambda: _request(RequestStatus.NEW, "/submit"),
    ("POST", "requests/<request_name:name>/restart"): _restart,
    ("POST", "dags/<uuid:dag_id>/hold"): lambda: _dag("hold"),
    ("POST", "dags/<uuid:dag_id>/release"): lambda: _dag("release"),
    ("POST", "dags/<uuid:dag_id>/remove"): lambda: _dag("remove"),
    ("POST", "requests/<request_name:name>/rescue"): _rescuable,
    ("POST", "dags/<uuid:dag_id>/rescue"): lambda: _dag("rescue", DAGStatus.REMOVED),
    ("POST", "schedds/<schedd_name:name>/drain"): lambda: (f"schedds/{SCHEDD}/drain", WHY),
    ("POST", "schedds/<schedd_name:name>/fence"): _lost,
    ("POST", "schedds/<schedd_name:name>/enable"): lambda: (f"schedds/{SCHEDD}/enable", WHY),
    ("POST", "alerts/<int:alert_id>/acknowledge"): _alert,
    ("POST", "quarantine/<int:replica_id>/lift"): _quarantined,
    ("PUT", "sandboxes"): lambda: ("sandboxes", tarball()),
    ("PATCH", "admission/config"): lambda: ("admission/config", WHY | {"max_active_dags": 5}),
    ("PATCH", "quotas/<quota_scope:scope>/<quota_name:name>"): lambda: (
        "quotas/requestor/ana",
        WHY | {"open_requests": 5},
    ),
    ("PATCH", "sites/<slug:name>"): lambda: (f"sites/{make_site()}", WHY | {"notes": "n"}),
    ("POST", "sites/<slug:name>/drain"): lambda: _site("drain"),
    ("POST", "sites/<slug:name>/disable"): lambda: _site("disable"),
    ("POST", "sites/<slug:name>/maintenance"): lambda: _site("maintenance"),
    ("POST", "sites/<slug:name>/enable"): lambda: _site("enable"),
    ("POST", "sites/<slug:name>/ban"): lambda: _site("ban"),
    ("DELETE", "sites/<slug:name>/ban"): _banned,
    ("POST", "tokens"): lambda: ("tokens", WHY | {"name": "mine"}),
    ("DELETE", "tokens/<uuid:token_id>"): _token,
    ("POST", "identities"): lambda: (
        "identities",
        WHY | {"user": str(make_user("bob")), "subject": "/DC=ch/CN=Bob"},
    ),
    ("DELETE", "identities/<int:identity_id>"): _identity,
    ("POST", "templates"): lambda: ("templates", WHY | {"name": "muons", "document": LINEAR}),
    ("PATCH", TEMPLATE): lambda: _template(description="d"),
    ("DELETE", TEMPLATE): _template,
    ("POST", f"{TEMPLATE}/activate"): lambda: _template("/activate"),
    ("POST", f"{TEMPLATE}/archive"): lambda: _template("/archive"),
    ("POST", f"{TEMPLATE}/clone"): lambda: _template("/clone", name="copy"),
    ("POST", f"{TEMPLATE}/start"): lambda: _template("/start", TemplateStatus.ACTUAL, dataset=RAW),
    ("POST", f"{CHAIN}/cancel"): lambda: _chain("cancel"),
    ("POST", f"{CHAIN}/skip"): lambda: _chain("skip", step="skim"),
    ("POST", f"{CHAIN}/approve"): lambda: _chain("approve", step="skim"),
    ("POST", f"{CHAIN}/reject"): lambda: _chain("reject", step="skim"),
    ("POST", f"{CHAIN}/retry"): _retry,
    ("POST", "datasets"): lambda: ("datasets", {"uid": "1", "name": RAW}),
    ("POST", f"{ANNOUNCEMENT}/replay"): lambda: _dead_letter("replay"),
    ("POST", f"{ANNOUNCEMENT}/drop"): lambda: _dead_letter("drop"),
    ("POST", "announcements/replay"): _dead_letters,
}
CREATE = {
    ("POST", "requests"),
    ("POST", "requests/<request_name:name>/restart"),
    ("POST", "dags/<uuid:dag_id>/rescue"),
    ("POST", "tokens"),
    ("POST", "identities"),
    ("POST", "templates"),
    ("POST", f"{TEMPLATE}/clone"),
    ("POST", "datasets"),
}
READS = {("POST", "requests/plan"), ("POST", "templates/check")}  # questions too long for a URL


def test_every_endpoint_that_writes_is_called_below() -> None:
    writing = {(method, route) for route, view in endpoints() for method in set(view.roles) - {"GET"}}
    assert writing - READS == set(CALLS)


@pytest.mark.parametrize(("method", "route"), sorted(CALLS))
def test_a_write_is_audited_with_its_actor(
    api_as: ApiAs, method: str, route: str, settings: Any, tmp_path: Path
) -> None:
    settings.SCHEDDS, settings.SUBMIT_ROOT = [SCHEDD], str(tmp_path)
    client: APIClient = api_as(Role.ADMIN, "adam")
    path, body = CALLS[method, route]()
    before = AuditEvent.objects.count()

    raw = isinstance(body, bytes)
    answer = client.generic(
        method,
        f"/api/v1/{path}",
        body if raw else json.dumps(body),
        content_type="application/gzip" if raw else "application/json",
    )

    assert answer.status_code == (201 if (method, route) in CREATE else 200), answer.content
    written = AuditEvent.objects.order_by("id")[before:]
    assert {event.actor for event in written} == {"user:adam"}
    assert {event.request_id for event in written} == {answer["X-Request-Id"]}
