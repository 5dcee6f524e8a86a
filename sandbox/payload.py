"""The toy payload: real files in, real files out, with knobs for cost, yield and failure.

Everything it writes depends only on the events and the knobs, so that a retry writes the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.context import Context, Tally, Touched
from sandbox.eventfile import Event, EventFileError, FileFacts, read_events, writing
from sandbox.failure import BAD_CONFIGURATION, JobFailure
from sandbox.lumis import Lumis, compress, union
from sandbox.manifest import Generate, InputFile, Job
from sandbox.storage import unreadable, verified_input

PAGE_BYTES = 4096


@dataclass(frozen=True)
class Window:
    """One stretch of a job's events, done: one local file per output dataset."""

    events_read: int
    lumis: Lumis
    parts: tuple[tuple[Path, FileFacts], ...]

    @property
    def size_bytes(self) -> int:
        return sum(facts.size_bytes for _, facts in self.parts)


@dataclass(frozen=True)
class Knobs:
    """`payload.toy`; `fail_*` make chosen nodes, sites and first attempts exit with `fail_exit_code`."""

    cpu_sec_per_event: float = 0.0
    wait_sec_per_event: float = 0.0
    memory_mb: float = 0.0
    filter_efficiency: float = 1.0
    output_kb_per_event: float = 0.0625
    fail_exit_code: int = 0
    fail_nodes: tuple[str, ...] = ()
    fail_sites: tuple[str, ...] = ()
    fail_attempts: int | None = None


def read_knobs(payload: dict[str, Any]) -> Knobs:
    """The knobs of a payload_config; what is not given keeps its light default."""
    given = payload.get("toy") or {}
    if not isinstance(given, dict):
        raise JobFailure(BAD_CONFIGURATION, f"payload: toy: expected an object, found {given!r:.80}")
    attempts = given.get("fail_attempts")
    return Knobs(
        cpu_sec_per_event=_number(given, "cpu_sec_per_event", Knobs.cpu_sec_per_event, 3600),
        wait_sec_per_event=_number(given, "wait_sec_per_event", Knobs.wait_sec_per_event, 3600),
        memory_mb=_number(given, "memory_mb", Knobs.memory_mb, 1_000_000),
        filter_efficiency=_number(given, "filter_efficiency", Knobs.filter_efficiency, 1),
        output_kb_per_event=_number(given, "output_kb_per_event", Knobs.output_kb_per_event, 16_384),
        fail_exit_code=int(_number(given, "fail_exit_code", Knobs.fail_exit_code, 999_999)),
        fail_nodes=_words(given, "fail_nodes"),
        fail_sites=_words(given, "fail_sites"),
        fail_attempts=None if attempts is None else int(_number(given, "fail_attempts", 0, 1000)),
    )


def check_injected_failure(context: Context, knobs: Knobs) -> None:
    """Fail on request. Without `fail_nodes` all processing nodes are meant; others only by name."""
    job = context.manifest.jobs.get(context.node)
    meant = context.node in knobs.fail_nodes if knobs.fail_nodes else job is not None
    if not knobs.fail_exit_code or not meant:
        return
    if knobs.fail_sites and context.site not in knobs.fail_sites:
        return
    if knobs.fail_attempts is not None and context.attempt >= knobs.fail_attempts:
        return
    blamed = [file.lfn for file in job.files[:1]] if job else []
    told = f"InjectedFailure: {knobs.fail_exit_code} on attempt {context.attempt} at {context.site}"
    raise JobFailure(knobs.fail_exit_code, " ".join([told, *blamed]), bad_inputs=blamed)


def run_toy(context: Context, job: Job, tally: Tally, knobs: Knobs, part: int) -> Window:
    """Process the job's events in order into `work/part<n>.<output>.root`."""
    deadline = context.deadline
    ballast = _hold_memory(knobs.memory_mb)
    paths = [context.work / f"part{part}.{index}.root" for index in range(len(context.manifest.outputs))]
    datasets = [output.dataset for output in context.manifest.outputs]
    seen: dict[int, set[int]] = {}
    read = 0
    with ExitStack() as stack:
        writers = [stack.enter_context(writing(path)) for path in paths]
        for event in input_events(context, job, tally):
            read += 1
            seen.setdefault(event.run, set()).add(event.lumi)
            _burn(knobs.cpu_sec_per_event)
            if knobs.wait_sec_per_event:
                time.sleep(knobs.wait_sec_per_event)
            if deadline is not None and time.monotonic() > deadline:
                raise context.out_of_time(f"event {read} of {job.events}")
            if not keeps(event, knobs.filter_efficiency):
                continue
            for index, writer in enumerate(writers):
                content = make_payload(f"{datasets[index]} {event.payload}", event, knobs.output_kb_per_event)
                writer.write(event._replace(payload=content))
    del ballast
    parts = tuple((path, writers[index].facts()) for index, path in enumerate(paths))
    return Window(events_read=read, lumis=compress(seen), parts=parts)


def input_events(context: Context, job: Job, tally: Tally) -> Iterator[Event]:
    """The events of the job's windows that its mask allows, in planned order."""
    if job.generate is not None:
        for event in generated_events(job.generate):
            if _allowed(job.mask, event):
                tally.events_read += 1
                yield event
    for file in job.files:
        yield from _file_events(context, file, job.mask if file.mask is None else file.mask, tally)


def generated_events(plan: Generate) -> Iterator[Event]:
    """Monte Carlo: event numbers in order, each lumi holding `events_per_lumi` of them."""
    for number in range(plan.first_event, plan.last_event + 1):
        lumi = plan.first_lumi + (number - plan.numbering_from) // plan.events_per_lumi
        event = Event(plan.run, lumi, number, "")
        yield event._replace(payload=make_payload("generated", event, Knobs.output_kb_per_event))


def keeps(event: Event, efficiency: float) -> bool:
    """Does the filter pass the event? The same event always gets the same answer."""
    if efficiency >= 1:
        return True
    digest = hashlib.blake2b(b"%d %d %d" % event[:3], digest_size=8).digest()
    return int.from_bytes(digest, "big") < efficiency * 2**64


def make_payload(origin: str, event: Event, size_kb: float) -> str:
    """Hexadecimal text of the wanted size that only this origin and event give."""
    digits = round(size_kb * 1024)
    source = f"{origin} {event.run} {event.lumi} {event.event}".encode("ascii")
    return hashlib.shake_128(source).hexdigest((digits + 1) // 2)[:digits]


def _file_events(context: Context, file: InputFile, mask: Lumis | None, tally: Tally) -> Iterator[Event]:
    path = verified_input(context, file.lfn, file.size_bytes, file.adler32)
    before = tally.inputs.get(file.lfn, Touched(0, {}))
    seen: dict[int, set[int]] = {}
    taken, index = 0, -1
    try:
        for index, event in enumerate(read_events(path)):
            if index > file.last_event:
                break
            if index >= file.first_event and _allowed(mask, event):
                taken += 1
                tally.events_read += 1
                seen.setdefault(event.run, set()).add(event.lumi)
                yield event
    except (EventFileError, OSError) as error:
        raise unreadable(file.lfn, str(error)) from error
    finally:
        tally.inputs[file.lfn] = Touched(before.events + taken, union([before.lumis, compress(seen)]))
    if index < file.last_event:
        raise unreadable(file.lfn, f"holds {index + 1} events, the window ends at event {file.last_event}")


def _allowed(mask: Lumis | None, event: Event) -> bool:
    return mask is None or any(first <= event.lumi <= last for first, last in mask.get(event.run, ()))


def _burn(cpu_sec: float) -> None:
    until = time.process_time() + cpu_sec
    while time.process_time() < until:
        hashlib.blake2b(bytes(PAGE_BYTES)).digest()


def _hold_memory(memory_mb: float) -> bytearray:
    ballast = bytearray(int(memory_mb * 1024 * 1024))
    pages = len(range(0, len(ballast), PAGE_BYTES))
    ballast[::PAGE_BYTES] = b"\1" * pages  # untouched pages would not be resident
    return ballast


def _number(given: dict[str, Any], key: str, default: float, maximum: float) -> float:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= maximum:
        told = f"payload: toy: {key}: {value!r:.80} is not a number from 0 to {maximum}"
        raise JobFailure(BAD_CONFIGURATION, told)
    return value


def _words(given: dict[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key) or []
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise JobFailure(BAD_CONFIGURATION, f"payload: toy: {key}: {value!r:.80} is not a list of names")
    return tuple(value)
