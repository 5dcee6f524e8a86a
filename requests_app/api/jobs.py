"""Calls of runners. Their tokens are valid for these endpoints only; tokens of users are refused here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from django.conf import settings
from rest_framework import serializers
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated, Throttled
from rest_framework.permissions import BasePermission
from rest_framework.request import Request as HttpRequest
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from dags_app.pull.outputs import FILE_NAME
from dags_app.pull.tokens import TokenKind, Verified, parse_group, read_token
from requests_app.services.runners import lending, recording, starting
from sandbox.names import ADLER32, NODE
from wms2_project.access.proxies import client_address
from wms2_project.access.throttles import address_block, seconds_to_wait
from wms2_project.api.views import ApiView, Input, parsed
from wms2_project.fields import LegalName
from wms2_project.grammar import Name

MAX_COUNT, MAX_OUTPUTS, MAX_PROCESSED = 20, 1000, 10_000
MAX_LUMI_RANGES = 10_000
_REALM = 'Bearer realm="wms2 jobs"'


class JobCaller:
    """The caller of a job's endpoint, which has no account."""

    is_authenticated = is_active = False
    pk = None

    def get_username(self) -> str:
        """Return no name."""
        return ""


class JobAuthentication(BaseAuthentication):
    """Verifies the token of a group or runner of the workflow in the path."""

    def authenticate(self, request: HttpRequest) -> tuple[JobCaller, Verified] | None:
        """Return the caller that the token names. Raise if there is no token or it is of another workflow."""
        kind, _, text = get_authorization_header(request).partition(b" ")
        if kind.lower() != b"bearer":
            raise NotAuthenticated
        workflow_id = request.parser_context["kwargs"]["workflow_id"]
        found = read_token(
            text.strip().decode("latin-1"), key=settings.JOB_TOKEN_KEY, workflow_id=workflow_id
        )
        if found is None:
            wait = seconds_to_wait("job_failures", address_block(client_address(request._request)))
            raise (
                Throttled(wait) if wait else AuthenticationFailed("This is not a job token of the workflow.")
            )
        return JobCaller(), found

    def authenticate_header(self, request: HttpRequest) -> str:
        """Return the challenge, which makes refusals a 401."""
        return _REALM


class JobPermission(BasePermission):
    """Admits tokens of the kind that the view names."""

    def has_permission(self, request: HttpRequest, view: Any) -> bool:
        """Raise AuthenticationFailed for a token of another kind."""
        if isinstance(request.auth, Verified) and request.auth.kind == view.token:
            return True
        raise AuthenticationFailed(f"This call needs a token of the kind {view.token}.")


def _verified(request: HttpRequest) -> Verified:
    found: Any = request.auth
    return found  # type: ignore[no-any-return]


class JobThrottle(BaseThrottle):
    """Limits the calls of each runner, and the starts of each group."""

    def allow_request(self, request: HttpRequest, view: Any) -> bool:
        """Count the call."""
        verified = _verified(request)
        who = f"{view.kwargs['workflow_id']}.{verified.kind}.{verified.subject}"
        self._wait = seconds_to_wait("job", who)
        return not self._wait

    def wait(self) -> float | None:
        """Return the seconds until the next call is allowed."""
        return self._wait or None


class JobView(ApiView):
    """Base of the calls of runners, see docs/pull.md. No role of a user gives access to them."""

    authentication_classes = [JobAuthentication]
    permission_classes = [JobPermission]
    throttle_classes = [JobThrottle]
    schema = None  # type: ignore[assignment]  # not in the description of the API
    for_jobs = True
    token: ClassVar[TokenKind]
    input: ClassVar[type[Input]]

    def post(self, request: HttpRequest, workflow_id: UUID) -> Response:
        """Parse the body and run the call."""
        body = parsed(self.input, request.data)
        return Response(self.run(workflow_id, _verified(request), body))

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        """Run the call and return its answer."""
        raise NotImplementedError


def _lfns(help_text: str) -> serializers.ListField:
    name = serializers.CharField(validators=[LegalName(Name.LFN.value)])
    return serializers.ListField(
        child=name, max_length=MAX_OUTPUTS, required=False, default=list, help_text=help_text
    )


def _text(pattern: str, **limits: Any) -> serializers.RegexField:
    """Return a field for a text that matches the pattern as a whole."""
    return serializers.RegexField(rf"\A(?:{pattern})\Z", trim_whitespace=False, **limits)


class StartInput(Input):
    """A job that starts."""

    node = _text(NODE.pattern, max_length=64)
    attempt = serializers.IntegerField(min_value=0, max_value=100_000)
    instance = serializers.UUIDField(help_text="Made by the job at each start.")
    htcondor_id = _text(r"[A-Za-z0-9_.@#:-]{1,100}")
    site = serializers.CharField(validators=[LegalName(Name.SITE.value)])
    slot = _text(r"[A-Za-z0-9_.@:-]{0,200}", allow_blank=True)
    seconds_left = serializers.IntegerField(min_value=0, max_value=10**8)


class HeartbeatInput(Input):
    """A runner that is alive."""

    removed = _lfns("Leftovers of other runners that were deleted.")


class AllocateInput(Input):
    """A call for files."""

    count = serializers.IntegerField(min_value=1, max_value=MAX_COUNT, required=False, default=1)
    call = serializers.UUIDField(help_text="Made by the caller; the same when the call is repeated.")


class OutputInput(Input):
    """An output file that will be uploaded."""

    name = _text(FILE_NAME.pattern)
    size_bytes = serializers.IntegerField(min_value=0, max_value=10**15)
    adler32 = _text(ADLER32.pattern)
    events = serializers.IntegerField(
        min_value=0, max_value=10**12, required=False, allow_null=True, default=None
    )
    lumis = serializers.ListField(
        child=serializers.ListField(
            child=serializers.IntegerField(min_value=0, max_value=2**32 - 1), min_length=3, max_length=3
        ),
        max_length=MAX_LUMI_RANGES, required=False, default=list, help_text="[[run, first, last], …]",
    )  # fmt: skip


class RecordInput(Input):
    """Processed files and outputs of a job."""

    exit_code = serializers.IntegerField(min_value=0, max_value=0, required=False, default=0)
    processed = serializers.ListField(
        child=serializers.CharField(validators=[LegalName(Name.LFN.value)]), max_length=MAX_PROCESSED
    )
    outputs = serializers.ListField(child=OutputInput(), max_length=MAX_OUTPUTS)


class UploadInput(Input):
    """The location of an uploaded output."""

    name = _text(FILE_NAME.pattern)
    site = serializers.CharField(validators=[LegalName(Name.SITE.value)])


class ConfirmInput(Input):
    """All outputs are on storage."""

    outputs = serializers.ListField(child=UploadInput(), max_length=MAX_OUTPUTS)


class AbortInput(Input):
    """The job gives up."""

    reason = serializers.CharField(max_length=1000)
    exit_code = serializers.IntegerField(
        min_value=-1000, max_value=10**6, required=False, allow_null=True, default=None
    )
    removed = _lfns("Outputs that the job uploaded and deleted again.")


class StartView(JobView):
    """Start a runner of the token's group."""

    token, input = TokenKind.GROUP, StartInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        number, index = parse_group(verified.subject)
        started = starting.start_runner(
            workflow_id=workflow_id, round_number=number, group_index=index, body=body
        )
        return asdict(started)


class HeartbeatView(JobView):
    """Extend the lease of the runner."""

    token, input = TokenKind.RUNNER, HeartbeatInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        state = starting.note_heartbeat(
            workflow_id=workflow_id, runner_id=UUID(verified.subject), removed=body["removed"]
        )
        return {"state": state}


class AllocateView(JobView):
    """Lend files to the runner."""

    token, input = TokenKind.FILES, AllocateInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        files = lending.allocate(workflow_id=workflow_id, runner_id=UUID(verified.subject), **body)
        return lending.as_json(files)


class RecordView(JobView):
    """Record processed files and outputs to upload."""

    token, input = TokenKind.RUNNER, RecordInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        return asdict(
            recording.record_outputs(workflow_id=workflow_id, runner_id=UUID(verified.subject), body=body)
        )


class ConfirmView(JobView):
    """Confirm that the outputs are on storage."""

    token, input = TokenKind.RUNNER, ConfirmInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        outcome = recording.confirm_outputs(
            workflow_id=workflow_id, runner_id=UUID(verified.subject), body=body
        )
        return {"outcome": outcome}


class AbortView(JobView):
    """End the runner as failed."""

    token, input = TokenKind.RUNNER, AbortInput

    def run(self, workflow_id: UUID, verified: Verified, body: dict[str, Any]) -> Any:
        outcome = recording.abort_runner(workflow_id=workflow_id, runner_id=UUID(verified.subject), body=body)
        return {"outcome": outcome}
