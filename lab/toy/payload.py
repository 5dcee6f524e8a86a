"""The toy payload: reads and writes real files, with knobs (`lab.toy.knobs`) for cost and yield.

Everything it writes depends only on the events and the knobs, so that a retry writes the same bytes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack

from lab.toy.eventfile import Event, EventFileError, read_events, writing
from lab.toy.eventmerge import TOOL
from lab.toy.faults import inject_fault
from lab.toy.knobs import Knobs, read_knobs
from sandbox.context import Context, Tally, Touched
from sandbox.failure import MEMORY_LIMIT, JobFailure
from sandbox.lumis import Lumis, compress, union
from sandbox.manifest import Generate, InputFile, Job
from sandbox.measure import peak_rss_mb
from sandbox.payloads import Kind, Window
from sandbox.storage import unreadable, verified_input

PAGE_BYTES = 4096


def run_toy(context: Context, job: Job, tally: Tally, knobs: Knobs, part: int) -> Window:
    """Process the job's events in order into `work/part<n>.<output>.root`."""
    started, deadline = time.monotonic(), context.deadline
    ballast = _hold_memory(context, knobs.memory_mb)
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
            # Sleep until planned times, not for fixed durations, so that delays of a busy machine do not add
            # up.
            time.sleep(max(0.0, started + read * knobs.wait_sec_per_event - time.monotonic()))
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
    """Yield the events of the job's windows that its mask allows, in planned order."""
    if job.generate is not None:
        for event in generated_events(job.generate):
            if _allowed(job.mask, event):
                tally.events_read += 1
                yield event
    for file in job.files:
        yield from _file_events(context, file, job.mask if file.mask is None else file.mask, tally)


def generated_events(plan: Generate) -> Iterator[Event]:
    """Yield event numbers in order; each lumi has `events_per_lumi` of them."""
    for number in range(plan.first_event, plan.last_event + 1):
        lumi = plan.first_lumi + (number - plan.numbering_from) // plan.events_per_lumi
        event = Event(plan.run, lumi, number, "")
        yield event._replace(payload=make_payload("generated", event, Knobs.output_kb_per_event))


def keeps(event: Event, efficiency: float) -> bool:
    """Return whether the filter passes the event, always the same for the same event."""
    if efficiency >= 1:
        return True
    digest = hashlib.blake2b(b"%d %d %d" % event[:3], digest_size=8).digest()
    return int.from_bytes(digest, "big") < efficiency * 2**64


def make_payload(origin: str, event: Event, size_kb: float) -> str:
    """Return hexadecimal text of this size that is unique to origin and event."""
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


def _hold_memory(context: Context, memory_mb: float) -> bytearray:
    """Allocate the memory. Above the requested memory the job fails, as a site's watchdog would end it."""
    ballast = bytearray(int(memory_mb * 1024 * 1024))
    pages = len(range(0, len(ballast), PAGE_BYTES))
    ballast[::PAGE_BYTES] = b"\1" * pages  # untouched pages would not be resident
    peak = peak_rss_mb() if memory_mb else 0
    if context.memory_mb is not None and peak > context.memory_mb:
        raise JobFailure(MEMORY_LIMIT, f"OverMemory: {peak} MB used, {context.memory_mb} MB requested")
    return ballast


KIND = Kind(
    name="toy",
    section="toy",
    merge_tool=TOOL.name,
    read_config=read_knobs,
    start=inject_fault,
    run_window=run_toy,
)
