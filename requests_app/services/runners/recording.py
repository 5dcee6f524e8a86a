"""The end of a runner's work: record its outputs, confirm them when they are safe, or abort."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from dags_app.models import InputFile, MergeGroup, Runner, RunnerOutput, Workflow
from dags_app.pull.ending import end_runner, held_files, log_event, return_files
from dags_app.pull.outcomes import decide_outcome
from dags_app.pull.outputs import FILE_NAME, OutputPattern, output_lfn, pattern_of
from dags_app.pull.patterns import patterns_of
from dags_app.states import FileState, RunnerEventKind, RunnerOutcome, RunnerState, UploadState
from outputs_app.services.recording import RecordedFile, record_files
from requests_app.services.runners.calls import (
    calling_runner,
    check_open,
    digest_of,
    is_repeated,
    note_end,
    request_of,
)
from requests_app.services.runners.checking import check_uploads
from requests_app.services.runners.geography import atlas, usable_names
from requests_app.states import RequestStatus
from wms2_project.errors import Conflict, Gone, InvalidInput
from wms2_project.failpoints import failpoint

RECORD, CONFIRM, ABORT = "record", "confirm", "abort"
PROCESSED, RETURNED = "processed", "returned"  # numbers of files, beside the digests of calls
WITHOUT_OUTPUTS = frozenset({RunnerOutcome.LATE, RunnerOutcome.UNPROCESSED})
NOTHING_COUNTS = frozenset({RunnerOutcome.FAILED, RunnerOutcome.LOST, RunnerOutcome.STOPPED})


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer to `record`: where each output goes. A runner without processed files has ended."""

    ended: bool
    returned: int
    outputs: Sequence[Mapping[str, Any]]


def record_outputs(*, workflow_id: UUID, runner_id: UUID, body: Mapping[str, Any]) -> Recorded:
    """Record which files were processed and which outputs will be uploaded. The other files go back."""
    digest = digest_of(body)
    with transaction.atomic():
        runner = calling_runner(workflow_id=workflow_id, runner_id=runner_id, lock=True)
        request = request_of(workflow_id)
        if is_repeated(runner, RECORD, digest):
            if runner.outcome in NOTHING_COUNTS:
                check_open(runner, request)
            ended = runner.outcome in WITHOUT_OUTPUTS
            return _recorded(runner, runner.outputs.order_by("id"), ended=ended)
        check_open(runner, request)
        held = {file.lfn: file for file in held_files(runner=runner)}
        processed = _processed(body["processed"], held)
        outputs = _outputs(runner, body["outputs"]) if processed else []
        returned = len(held) - len(processed)
        if returned:
            return_files(runner=runner, keep=[file.pk for file in processed])
        runner.calls |= {RECORD: digest, PROCESSED: len(processed), RETURNED: returned}
        state = RunnerState.RECORDED if processed else runner.state
        Runner.objects.filter(pk=runner.pk).update(calls=runner.calls, state=state, heartbeat_at=Now())
        if processed:
            RunnerOutput.objects.bulk_create(outputs)
            names = ", ".join(one.name for one in outputs)[:1000]
            log_event(runner, RunnerEventKind.CREATED, message=f"{len(outputs)} outputs: {names}")
        else:
            outcome = decide_outcome(lent=runner.files_lent, processed=0)
            end_runner(runner=runner, outcome=outcome, exit_code=body["exit_code"])
            note_end(round_=runner.round, workflow=runner.workflow)
    failpoint("runner.recorded")
    return _recorded(runner, outputs, ended=not processed)


def _recorded(runner: Runner, outputs: Iterable[RunnerOutput], *, ended: bool) -> Recorded:
    described = [{"name": one.name, "lfn": one.lfn, "sites": one.sites} for one in outputs]
    return Recorded(ended=ended, returned=runner.calls[RETURNED], outputs=described)


def _processed(lfns: Sequence[str], held: Mapping[str, InputFile]) -> list[InputFile]:
    strange = [lfn for lfn in lfns if lfn not in held]
    if strange:
        message = f"{strange[0]:.200} is not lent to this runner"
        raise InvalidInput(f"processed: {message}", fields={"processed": message}, cure="Abort")
    return [held[lfn] for lfn in dict.fromkeys(lfns)]


def _outputs(runner: Runner, given: Sequence[Mapping[str, Any]]) -> list[RunnerOutput]:
    patterns = patterns_of(runner.workflow)
    sites = atlas().upload_sites(runner.site, usable=usable_names(runner.workflow))
    if given and not sites:
        raise Conflict("no usable site has a storage for outputs", cure="Abort")
    twice = [name for name, count in Counter(one["name"] for one in given).items() if count > 1]
    if twice:
        raise _refused(given, twice[0], "occurs twice")
    return [_output(runner, one, _pattern(given, one["name"], patterns), sites) for one in given]


def _pattern(
    given: Sequence[Mapping[str, Any]], name: str, patterns: Sequence[OutputPattern]
) -> OutputPattern:
    found = pattern_of(name, patterns)
    if not FILE_NAME.fullmatch(name) or ".." in name:
        raise _refused(given, name, "is not a plain file name of letters, digits and any of _ . = -")
    if found is None:
        raise _refused(given, name, "matches no output pattern of the request")
    return found


def _refused(given: Sequence[Mapping[str, Any]], name: str, why: str) -> InvalidInput:
    index = next(number for number, one in enumerate(given) if one["name"] == name)
    field, message = f"outputs[{index}].name", f"{name:.200} {why}"
    return InvalidInput(f"{field}: {message}", fields={field: message}, cure="Abort")


def _output(
    runner: Runner, given: Mapping[str, Any], pattern: OutputPattern, sites: list[str]
) -> RunnerOutput:
    workflow = runner.workflow
    return RunnerOutput(
        runner=runner,
        name=given["name"],
        pattern=pattern.number,
        dataset_name=pattern.dataset,
        lfn=output_lfn(
            runner_id=str(runner.pk),
            name=given["name"],
            dataset=pattern.dataset,
            merged_base=workflow.merged_lfn_base,
            scratch_base=f"{workflow.unmerged_lfn_base}/scratch/{workflow.request_name}",
        ),
        size_bytes=given["size_bytes"],
        adler32=given["adler32"],
        events=given["events"],
        lumis=given["lumis"],
        sites=sites,
    )


def confirm_outputs(*, workflow_id: UUID, runner_id: UUID, body: Mapping[str, Any]) -> str:
    """Confirm that all recorded outputs are on storage; return the runner's outcome.

    In one transaction the inputs are processed and the outputs enter blocks, with the inputs as parents. The
    row of the request is locked, so that an end of the request sees all of it or nothing.
    """
    digest, now = digest_of(body), timezone.now()
    runner = calling_runner(workflow_id=workflow_id, runner_id=runner_id)
    if not is_repeated(runner, CONFIRM, digest):
        check_open(runner, request_of(workflow_id))
        check_uploads(runner, _sites_of(runner, body["outputs"]), now=now)
    with transaction.atomic():
        request = request_of(workflow_id, lock=True)
        runner = calling_runner(workflow_id=workflow_id, runner_id=runner_id, lock=True)
        if is_repeated(runner, CONFIRM, digest):
            return str(runner.outcome)
        check_open(runner, request)
        if runner.state != RunnerState.RECORDED:
            raise Conflict("the runner has recorded no outputs", cure="Record them first")
        _store_outputs(runner, _sites_of(runner, body["outputs"]), digest, now)
    failpoint("runner.confirmed")
    return str(RunnerOutcome.PROCESSED)


def _sites_of(runner: Runner, given: Sequence[Mapping[str, str]]) -> list[RunnerOutput]:
    """Return the recorded outputs with the site that each was uploaded to."""
    recorded = {one.name: one for one in runner.outputs.order_by("id")}
    named = {one["name"]: one["site"] for one in given}
    if len(named) != len(given) or set(named) != set(recorded):
        message = "name every recorded output once"
        raise InvalidInput(f"outputs: {message}", fields={"outputs": message}, cure="Abort")
    for index, one in enumerate(given):
        output = recorded[one["name"]]
        if one["site"] not in output.sites:
            field, message = f"outputs[{index}].site", f"{one['site']:.100} was not offered for this output"
            raise InvalidInput(f"{field}: {message}", fields={field: message}, cure="Abort")
        output.site = one["site"]
    return list(recorded.values())


def _store_outputs(runner: Runner, outputs: list[RunnerOutput], digest: str, now: datetime) -> None:
    inputs = held_files(runner=runner)
    if len(inputs) != runner.calls.get(PROCESSED):
        raise Gone("input files of the runner were excluded meanwhile", cure="Abort")
    InputFile.objects.filter(pk__in=[file.pk for file in inputs]).update(state=FileState.PROCESSED)
    for output in outputs:
        output.state = UploadState.CONFIRMED
    RunnerOutput.objects.bulk_update(outputs, ["site", "state"])
    parents = [file.lfn for file in inputs if file.first_event is None]
    patterns = {one.number: one for one in patterns_of(runner.workflow)}
    kept = [_file(output, patterns[output.pattern], parents) for output in outputs if output.dataset_name]
    record_files(workflow_id=runner.workflow_id, group_id=runner.group_id, files=kept, now=now)
    _count(runner, inputs, outputs)
    Runner.objects.filter(pk=runner.pk).update(
        state=RunnerState.ENDED, outcome=RunnerOutcome.PROCESSED, ended_at=Now(), heartbeat_at=Now(),
        files_processed=len(inputs), exit_code=0, calls=runner.calls | {CONFIRM: digest},
    )  # fmt: skip
    log_event(runner, RunnerEventKind.UPLOADED, message=f"{len(outputs)} outputs")
    log_event(runner, RunnerEventKind.PROCESSED, [file.pk for file in inputs])
    note_end(round_=runner.round, workflow=runner.workflow)


def _file(output: RunnerOutput, pattern: OutputPattern, parents: Sequence[str]) -> RecordedFile:
    return RecordedFile(
        dataset=output.dataset_name,
        lfn=output.lfn,
        size_bytes=output.size_bytes,
        adler32=output.adler32,
        events=output.events,
        lumis=output.lumis,
        parents=list(parents),
        site=output.site,
        rse=atlas().own_storage.get(output.site, output.site),
        lifetime_days=pattern.lifetime_days,
    )


def _count(runner: Runner, inputs: Sequence[InputFile], outputs: Sequence[RunnerOutput]) -> None:
    """Add what was read and written to the group and the workflow; of several datasets the largest counts."""
    written: Counter[str] = Counter()
    for output in outputs:
        written[output.dataset_name] += output.events or 0
    events = max(written.values(), default=0)
    read = sum(file.events for file in inputs)
    MergeGroup.objects.filter(pk=runner.group_id).update(
        events_read=F("events_read") + read, events_written=F("events_written") + events
    )
    Workflow.objects.filter(pk=runner.workflow_id).update(produced_events=F("produced_events") + events)


def abort_runner(*, workflow_id: UUID, runner_id: UUID, body: Mapping[str, Any]) -> str:
    """End the runner as failed: all its files go back. Return its outcome."""
    digest = digest_of(body)
    with transaction.atomic():
        runner = calling_runner(workflow_id=workflow_id, runner_id=runner_id, lock=True)
        request = request_of(workflow_id)
        if is_repeated(runner, ABORT, digest):
            return str(runner.outcome)
        check_open(runner, request)
        Runner.objects.filter(pk=runner.pk).update(calls=runner.calls | {ABORT: digest})
        stopped = request.status == RequestStatus.STOPPING  # its job is being removed
        outcome = RunnerOutcome.STOPPED if stopped else RunnerOutcome.FAILED
        reason, code = body["reason"], body["exit_code"]
        end_runner(runner=runner, outcome=outcome, message=reason, exit_code=code, refund=stopped)
        runner.outputs.filter(lfn__in=body["removed"]).update(state=UploadState.REMOVED)
        note_end(round_=runner.round, workflow=runner.workflow)
    failpoint("runner.aborted")
    return str(outcome)
