"""The role of a runner: start, process the files that WMS2 lends, store the outputs, confirm them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from sandbox.context import Context, Tally
from sandbox.failure import CALL_REFUSED, NO_SERVER, WRAPPER, JobFailure, Terminated
from sandbox.jsonfile import clean_text
from sandbox.manifest import Generate, InputFile, Job, Pull
from sandbox.places import Places
from sandbox.pull.client import INVALID, OVER, Client, Refused, Unreachable
from sandbox.pull.jobscript import Made, Result, run_jobscript
from sandbox.pull.machine import Slot
from sandbox.pull.uploads import remove_uploads, upload
from sandbox.registry import start_payload

LEAST_SEC = 60  # of the slot for a further file
ABORT_SEC = 20.0  # a job that must end has little time
CA_FILE = "jobs_ca.pem"  # in the job's directory
MAX_FILES = 1000  # of one runner: as many outputs may be recorded


class Runner:
    """One job, from its start to its end, as WMS2 knows it."""

    def __init__(self, context: Context, pull: Pull, slot: Slot) -> None:
        self._context, self._slot = context, slot
        self._client = Client(pull.url, context.manifest.workflow_id, _ca_file(context))
        self._started = self._start(pull.token)
        self._client.patience_sec = self._started["patience_sec"]
        self._removed: list[str] = []  # of its own outputs, after they were uploaded
        self._ending = False  # a call was made that may end the runner

    def _start(self, token: str) -> dict[str, Any]:
        body = {
            "node": self._context.node,
            "attempt": self._context.attempt,
            "instance": str(uuid.uuid4()),
            "htcondor_id": self._slot.job_id,
            "site": self._slot.site,
            "slot": self._slot.name,
            "seconds_left": self._slot.seconds_left,
        }
        started: dict[str, Any] = self._client.post("runners", body, token=token)
        return started

    def work(self, tally: Tally) -> None:
        """Process files until there are none, and store the outputs. Raises JobFailure, Refused, Unreachable.

        What was processed before a file failed is stored before the failure is raised.
        """
        with self._heartbeats():
            self._remove_leftovers()
            failure: JobFailure | None = None
            if self._started["jobscript"]:
                result = self._run_jobscript()
            else:
                result, failure = self._process_files(tally)
            if failure is not None and not result.processed:
                raise failure
            self._store(result, tally)
            if failure is not None:
                raise failure

    def abort(self, reason: str, code: int) -> None:
        """Report to WMS2 that the job gives up. Without an answer the lease expires."""
        body = {
            "reason": clean_text(reason, 1000) or "failed",
            "exit_code": code,
            "removed": self._removed,
        }
        with suppress(Refused, Unreachable):
            self._client.post("abort", body, token=self._started["runner_token"], patience_sec=ABORT_SEC)

    def _call(self, name: str, body: dict[str, Any]) -> Any:
        return self._client.post(name, body, token=self._started["runner_token"])

    @contextmanager
    def _heartbeats(self) -> Iterator[None]:
        done = threading.Event()

        def beat() -> None:
            while not done.wait(self._started["heartbeat_sec"]):
                try:
                    self._client.post("heartbeat", {}, token=self._started["runner_token"], patience_sec=0)
                except Refused as refused:
                    if refused.status == OVER:
                        if not self._ending:
                            os.kill(os.getpid(), signal.SIGTERM)  # nothing that the job does now counts
                        return
                except Unreachable:
                    continue  # the next one may be answered before the lease ends

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _remove_leftovers(self) -> None:
        """Delete what earlier runners uploaded and did not confirm."""
        if removed := remove_uploads(self._context, self._started["remove"]):
            self._call("heartbeat", {"removed": removed})

    def _run_jobscript(self) -> Result:
        settings = {
            "url": self._client.url,
            "workflow_id": self._client.workflow_id,
            "ca_file": self._client.ca_file,
            "patience_sec": self._client.patience_sec,
            "token": self._started["files_token"],
            "ends_at": self._slot.ends_at,
        }
        return run_jobscript(
            self._context,
            self._started["jobscript"],
            settings=settings,
            environment=self._started["environment"],
            patterns=self._started["patterns"],
        )

    def _process_files(self, tally: Tally) -> tuple[Result, JobFailure | None]:
        """Run the payload on one file after the other, while the slot has time for another."""
        kind, config = start_payload(self._context)
        result, longest = Result([], []), 0.0
        for number in range(MAX_FILES // max(1, len(self._context.manifest.outputs))):
            if self._slot.seconds_left < max(LEAST_SEC, 2 * longest):
                break
            file = self._next_file()
            if file is None:
                break
            began = time.monotonic()
            try:
                reading = self._reading(file)
                window = kind.run_window(reading, job_of(self._context.node, file), tally, config, number)
            except JobFailure as failure:
                return result, failure
            longest = max(longest, time.monotonic() - began)
            result.processed.append(file["lfn"])
            for path, facts in window.parts:
                made = Made(path, facts.size_bytes, facts.adler32, facts.events, facts.lumis)
                result.outputs.append(made)
        return result, None

    def _next_file(self) -> dict[str, Any] | None:
        body = {"count": 1, "call": str(uuid.uuid4())}
        try:
            answer = self._client.post("allocate", body, token=self._started["files_token"])
        except Refused as refused:
            if refused.status != OVER:
                raise
            sys.stderr.write(f"no more files: {refused}\n")
            return None
        return answer["files"][0] if answer["files"] else None

    def _reading(self, file: dict[str, Any]) -> Context:
        """Return the context in which the file is read from the storage that WMS2 chose."""
        if not file["pfn"]:
            return self._context
        prefix = file["pfn"][: -len(file["lfn"])]
        return replace(self._context, places=Places({self._context.site: (prefix,)}))

    def _store(self, result: Result, tally: Tally) -> None:
        outputs = [
            {
                "name": made.name,
                "size_bytes": made.size_bytes,
                "adler32": made.adler32,
                "events": made.events,
                "lumis": [[int(run), *part] for run, parts in made.lumis.items() for part in parts],
            }
            for made in result.outputs
        ]
        body = {"processed": result.processed, "outputs": outputs}
        self._ending = True
        recorded = self._call("record", body)
        self._ending = recorded["ended"]
        if recorded["ended"]:
            return
        uploads = self._upload(result.outputs, recorded["outputs"])
        self._ending = True
        try:
            self._call("confirm", {"outputs": uploads})
        except Refused as refused:
            if refused.status in (OVER, INVALID):  # other answers do not prove that nothing was confirmed
                self._removed = remove_uploads(self._context, recorded["outputs"])
            raise
        tally.events_written = sum(made.events or 0 for made in result.outputs)

    def _upload(self, outputs: Sequence[Made], recorded: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
        """Upload the outputs. If one fails, none counts, and those that were uploaded are deleted."""
        offered = {one["name"]: one for one in recorded}
        try:
            return [
                {"name": made.name, "site": upload(self._context, made, offered[made.name])}
                for made in outputs
            ]
        except (JobFailure, Terminated):
            self._removed = remove_uploads(self._context, recorded)
            raise


def _ca_file(context: Context) -> str:
    """Return the authorities of WMS2's certificate; '' = those of this machine."""
    path = context.scratch / CA_FILE
    return str(path) if path.exists() else ""


def job_of(node: str, file: dict[str, Any]) -> Job:
    """Return a job that processes the lent file, or makes the events of a counter."""
    if file["generate"]:
        return Job(node, (), Generate(**file["generate"]), None, file["events"])
    checksum = file["adler32"].lower().zfill(8) if file["adler32"] not in ("", "NOTSET") else ""
    read = InputFile(file["lfn"], file["size_bytes"], checksum, file["events"], 0, file["events"] - 1)
    return Job(node, (read,), None, None, file["events"])


def run_runner(context: Context, tally: Tally, slot: Slot) -> None:
    """Run the job of a runner. Raises JobFailure, but not if the round is over."""
    pull = context.manifest.pull
    if pull is None:
        raise JobFailure(
            CALL_REFUSED, "jobs.json: pull: not there; this group has no runners", source=WRAPPER
        )
    runner = None
    try:
        runner = Runner(context, pull, slot)
        runner.work(tally)
    except Unreachable as error:
        # The source is not the wrapper: it proves nothing against the site while WMS2 may be down for all
        raise JobFailure(NO_SERVER, f"WMS2 does not answer: {error}") from error
    except Refused as refused:
        if runner is not None and refused.status != OVER:
            runner.abort(str(refused), CALL_REFUSED)
        if refused.status == OVER and runner is None:
            sys.stderr.write(f"nothing to do: {refused}\n")
            return
        raise JobFailure(CALL_REFUSED, f"WMS2 refused a call: {refused}", source=WRAPPER) from refused
    except JobFailure as failure:
        if runner is not None:
            runner.abort(failure.message, failure.code)
        raise
    except Terminated as end:
        if runner is not None:
            runner.abort(f"ended by signal {end.signal_number}", 128 + end.signal_number)
        raise
