"""Tokens of jobs, one per workflow with a live DAG: obtained before submission, renewed, removed at the end.

A token is in its file only, never in a row, an argument, an environment value or a log. HTCondor takes the
file to the jobs, and takes it again after each renewal (docs/security.md). Every step can be repeated: a file
that is lost is written anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, Func, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Coalesce

from condor.submitfile import token_file_name
from dags_app.adapters import storage_with, token_issuer
from dags_app.credentials.files import UnreadableCredential, Validity, read_validity, write_private
from dags_app.credentials.scopes import EXPIRING_BELOW, MODIFY, READ, RENEW_BELOW, STOP_BELOW, build_scopes
from dags_app.models import DAG, JobToken, Workflow
from dags_app.services.secondary import secondary_datasets
from dags_app.states import IN_QUEUE, LIVE_DAG, FileState
from sandbox.storage import Kind, Storage, StorageError, discovered_token
from wms2_project.errors import RateLimited, ServiceUnavailable, TransientError, Wms2Error
from wms2_project.wakeups import CREDENTIAL, wake_waiting
from wms2_project.words import counted

logger = logging.getLogger(__name__)
MAX_OWN_TOKENS = 500
_own_tokens: dict[tuple[str, ...], tuple[str, datetime]] = {}  # by issuer and scopes: value, renewed from
CLIENT_CERTIFICATE, JOB_PROXY, JOB_TOKENS = "client certificate", "job proxy", "job tokens"


class CredentialUnavailable(TransientError):
    """Jobs would start without a usable credential. Nothing was submitted."""

    code = "credential_unavailable"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The reason why no DAG of a workflow may be submitted now."""

    message: str
    remedy: str
    since: datetime | None = None


def ensure_token(*, workflow: Workflow, now: datetime) -> None:
    """Make the workflow's token file exist, with the scopes it needs now and more than half of its life.

    A token with a quarter of its life left is enough while the issuer fails. Does nothing without an issuer.
    Raises CredentialUnavailable after recording why, and InputTooScattered.
    """
    if not settings.TOKEN_ISSUER:
        return
    scopes = workflow_scopes(workflow=workflow)
    token, _ = JobToken.objects.get_or_create(workflow=workflow)
    fits = token.scope == " ".join(scopes) and token_file(workflow).exists()
    if fits and not token.life.is_due(now):
        return
    if not fits:  # from now on it counts as none, also for the gate and the alert
        JobToken.objects.filter(workflow=workflow).update(expires_at=None)
    try:
        _renew(workflow, scopes, now)
    except RateLimited:
        raise
    except Wms2Error as error:
        _record_failure([workflow], error, now)
        if not fits or token.life.is_expiring(now):
            raise CredentialUnavailable(f"no token for jobs: {error.message}", cure=error.cure) from error
        logger.warning("%s: submitted with its present token: %s", workflow.request_name, error)


def renew_tokens(*, now: datetime, seconds: float) -> None:
    """Renew the tokens that are due, and remove those of workflows without a live DAG.

    Stops after `seconds`; the next call continues. An issuer that does not answer is called once.
    """
    if settings.CREDENTIAL_DIR:
        _remove_unused()
    if not settings.TOKEN_ISSUER:
        return
    ends, due = time.monotonic() + seconds, _due(now)
    for index, workflow in enumerate(due):
        if time.monotonic() >= ends:
            return
        try:
            _renew(workflow, workflow_scopes(workflow=workflow), now)
        except RateLimited:
            return
        except ServiceUnavailable as error:
            logger.warning("tokens are not renewed: %s", error)
            _record_failure(due[index:], error, now)
            return
        except Wms2Error as error:
            logger.warning("%s: its token is not renewed: %s", workflow.request_name, error)
            _record_failure([workflow], error, now)


def workflow_scopes(*, workflow: Workflow) -> list[str]:
    """Return the scopes that the workflow's token needs: directories of its input and its own outputs."""
    directory = Func(
        F("lfn"), Value("/[^/]+$"), Value(""), function="regexp_replace", output_field=TextField()
    )
    files = workflow.input_files.exclude(state=FileState.EXCLUDED).order_by()
    directories = set(files.annotate(directory=directory).values_list("directory", flat=True).distinct())
    for dataset in secondary_datasets(workflow=workflow):
        directories |= {lfn.rpartition("/")[0] for lfn in dataset.lfns}
    return _scopes(workflow, input_directories=directories)


@contextmanager
def storage_of(*, workflow: Workflow, now: datetime) -> Iterator[Storage]:
    """Yield the access to storage with a token for the workflow's outputs, obtained when it is needed."""
    with storage_with(lambda: _token_or_error(_scopes(workflow), now)) as access:
        yield access


@contextmanager
def storage_below(directory: str, *, now: datetime) -> Iterator[Storage]:
    """Yield the access to storage with a token that opens one directory (LFN) for writing."""
    scopes = [f"{MODIFY}:{directory}", f"{READ}:{directory}"]
    with storage_with(lambda: _token_or_error(scopes, now)) as access:
        yield access


def _token_or_error(scopes: Sequence[str], now: datetime) -> str:
    """Return a token with these scopes; without an issuer, that of this process. Raises StorageError."""
    try:
        return own_token(scopes, now=now) or discovered_token()
    except Wms2Error as error:
        raise StorageError(Kind.DOWN, 0, f"no token for storage: {error.message}") from error


def own_token(scopes: Sequence[str], *, now: datetime) -> str:
    """Return a token for WMS2's own access to storage; '' without an issuer.

    It is kept in the memory of this process until half of its life is over.
    """
    if not settings.TOKEN_ISSUER:
        return ""
    key = (settings.TOKEN_ISSUER, *scopes)
    value, renew_at = _own_tokens.get(key, ("", now))
    if now >= renew_at:
        issued = token_issuer().obtain(scopes)
        if len(_own_tokens) >= MAX_OWN_TOKENS:
            _own_tokens.clear()
        value, renew_at = issued.value, now + timedelta(seconds=RENEW_BELOW * issued.lifetime_sec)
        _own_tokens[key] = (value, renew_at)
    return value


def _scopes(workflow: Workflow, *, input_directories: Iterable[str] = ()) -> list[str]:
    return build_scopes(
        workflow_id=str(workflow.pk),
        input_directories=input_directories,
        output_datasets=workflow.written_datasets,
        merged_base=workflow.merged_lfn_base,
        unmerged_base=workflow.unmerged_lfn_base,
    )


def token_file(workflow: Workflow) -> Path:
    """Return the path at which HTCondor reads the workflow's token."""
    return Path(settings.CREDENTIAL_DIR) / token_file_name(str(workflow.pk))


def submission_obstacle(*, workflow: Workflow, now: datetime) -> Obstacle | None:
    """Return why the credential of the workflow's jobs forbids a submission now, or None. Only reads."""
    if settings.JOB_PROXY and (problem := _problem(settings.JOB_PROXY, now)):
        remedy = f"Renew the proxy in {settings.JOB_PROXY}. The request then continues automatically"
        return Obstacle(f"the X.509 proxy of jobs cannot be used: {problem}", remedy)
    token = JobToken.objects.filter(workflow=workflow).exclude(error="").first()
    if not settings.TOKEN_ISSUER or token is None:
        return None
    if not token.life.is_expiring(now):
        return None
    remedy = token.remedy or "Restore the token issuer. The request then continues automatically"
    return Obstacle(f"no token for jobs: {token.error}", remedy, since=token.failing_since)


def expiring_files(*, now: datetime) -> dict[str, str]:
    """Return what is wrong with each certificate, proxy and token file of the settings, by its name."""
    problems = {name: _problem(path, now) for name, path in _credential_files().items()}
    return {name: problem for name, problem in problems.items() if problem}


def expiring_tokens(*, now: datetime) -> dict[str, str]:
    """Return what is wrong with the tokens of live workflows that have ended or end soon."""
    known = JobToken.objects.filter(workflow__in=_live_workflows()).order_by("expires_at")
    ending = [token for token in known if (token.error or token.expires_at) and token.life.is_expiring(now)]
    if not settings.TOKEN_ISSUER or not ending:
        return {}
    reason = next((token.error for token in ending if token.error), "they were not renewed")
    count = counted(len(ending), "request")
    return {JOB_TOKENS: f"the tokens of {count} have ended or end soon: {reason}"}


def ending_workflows(*, now: datetime) -> dict[str, QuerySet[Workflow]]:
    """Return the workflows with DAGs in the queue whose jobs' credential is about to end, by the reason.

    What its jobs would write later would be refused, and the refusals would look like faults of the sites.
    """
    queued = Workflow.objects.filter(Exists(DAG.objects.filter(workflow=OuterRef("pk"), status__in=IN_QUEUE)))
    ending: dict[str, QuerySet[Workflow]] = {}
    proxy = _validity(settings.JOB_PROXY)
    if proxy is not None and proxy.ends - now <= _stop_window(proxy.ends - proxy.begins):
        ending[f"the X.509 proxy of jobs ends at {proxy.ends:%F %R} UTC"] = queued
    if settings.TOKEN_ISSUER:
        window = _stop_window(timedelta(seconds=settings.TOKEN_LIFETIME_SEC))
        tokens = JobToken.objects.filter(expires_at__lte=now + window)
        ending["the token of its jobs ends and is not renewed"] = queued.filter(job_token__in=tokens)
    return ending


def _stop_window(life: timedelta) -> timedelta:
    return min(timedelta(seconds=settings.CREDENTIAL_STOP_SEC), STOP_BELOW * life)


def _validity(path: str) -> Validity | None:
    """Return how long a credential is valid; None if that is not known."""
    try:
        return read_validity(Path(path)) if path else None
    except UnreadableCredential:
        return None


def _renew(workflow: Workflow, scopes: Sequence[str], now: datetime) -> None:
    """Write a new token to the file and record when it ends. The row exists already or is made here."""
    JobToken.objects.get_or_create(workflow=workflow)
    issued = token_issuer().obtain(scopes)
    path = token_file(workflow)
    try:
        write_private(path, f"{issued.value}\n")
    except OSError as error:
        raise TransientError(
            f"the token file {path} could not be written: {error.strerror}",
            cure="Give WMS2 access to WMS2_CREDENTIAL_DIR",
        ) from error
    with transaction.atomic():
        token = JobToken.objects.filter(workflow=workflow)
        failed = token.exclude(error="").exists()
        token.update(
            scope=" ".join(scopes),
            expires_at=now + timedelta(seconds=issued.lifetime_sec),
            lifetime_sec=issued.lifetime_sec,
            error="",
            remedy="",
            failing_since=None,
            updated_at=now,
        )
        if failed:
            wake_waiting(CREDENTIAL)


def _record_failure(workflows: Sequence[Workflow], error: Wms2Error, now: datetime) -> None:
    JobToken.objects.bulk_create([JobToken(workflow=one) for one in workflows], ignore_conflicts=True)
    JobToken.objects.filter(workflow__in=workflows).update(
        error=error.message[:1000],
        remedy=error.cure,
        failing_since=Coalesce("failing_since", Value(now)),
        updated_at=now,
    )


def _live_workflows() -> QuerySet[Workflow]:
    return Workflow.objects.filter(Exists(DAG.objects.filter(workflow=OuterRef("pk"), status__in=LIVE_DAG)))


def _due(now: datetime) -> list[Workflow]:
    """Return the live workflows whose token is due or lost, sorted by its end."""
    found = (
        _live_workflows()
        .select_related("job_token")
        .order_by(F("job_token__expires_at").asc(nulls_first=True))
    )
    return [workflow for workflow in found if _needs_token(workflow, now)]


def _needs_token(workflow: Workflow, now: datetime) -> bool:
    token: JobToken | None = getattr(
        workflow, "job_token", None
    )  # a reverse one-to-one relation may be empty
    if token is None or not token_file(workflow).exists():
        return True
    return token.life.is_due(now)


def _remove_unused() -> None:
    """Remove the file, then the row, of each workflow without a live DAG."""
    unused = JobToken.objects.exclude(workflow__in=_live_workflows())
    for pk in unused.values_list("pk", flat=True):
        with transaction.atomic():
            token = unused.select_for_update(of=("self",)).select_related("workflow").filter(pk=pk).first()
            if token is not None and _removed(token_file(token.workflow)):
                token.delete()


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("the token file %s could not be removed: %s", path, error.strerror)
        return False
    return True


def _credential_files() -> dict[str, str]:
    files = {
        CLIENT_CERTIFICATE: settings.CMS_SERVICES["client_cert"],
        JOB_PROXY: settings.JOB_PROXY,
        "service token": settings.SERVICE_TOKEN_FILE,
        "Rucio token": settings.RUCIO_TOKEN_FILE if settings.RUCIO_AUTH == "token" else "",
    }
    return {name: path for name, path in files.items() if path}


def _problem(path: str, now: datetime) -> str:
    """Return what is wrong with the certificate, proxy or token in a file; '' if it lives long enough."""
    try:
        validity = read_validity(Path(path))
    except UnreadableCredential as error:
        return str(error)
    if validity is None:
        return ""
    life = validity.ends - validity.begins
    warned = min(timedelta(seconds=settings.CREDENTIAL_WARN_SEC), EXPIRING_BELOW * life)
    return "" if validity.ends - now > warned else f"{path} ends at {validity.ends:%F %R} UTC; renew it"
