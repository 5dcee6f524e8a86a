"""Pilot mode: the job measures itself on N, 2N, 4N … of its own events, then processes the others.

Every event of the job is processed exactly once, so that a pilot's output is like any other job's. Every
window starts the payload anew, so N is at least a MAX_PARTS-th of all events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from sandbox.manifest import Job, PilotSettings
from sandbox.measure import Meter, peak_rss_mb
from sandbox.payloads import Window
from sandbox.report import Iteration, PilotReport, Recommended, StepProfile

MAX_EVENTS_PER_JOB = 10_000_000
MAX_PARTS = 8
MEMORY_MARGIN = 1.2
STEP = "payload"


def run_pilot(
    job: Job, settings: PilotSettings, run_window: Callable[[Job, int], Window], *, threads: int = 1
) -> tuple[list[Window], PilotReport | None]:
    """Process the whole job by measured windows; the report is None if there was no event to measure."""
    total = job.window_events
    windows: list[Window] = []
    iterations: list[Iteration] = []
    clock = Meter()
    done, size, converged = 0, max(settings.initial_events, total // MAX_PARTS), False
    while done < total and not converged and clock.wall_time_sec() < settings.time_budget_sec:
        window, iteration = _measure(take(job, done, size), len(windows), run_window)
        windows.append(window)
        done, size = min(done + size, total), size * 2
        if iteration is not None:
            converged = bool(iterations) and has_converged(iterations[-1], iteration, settings.tolerance)
            iterations.append(iteration)
    if done < total or not windows:
        windows.append(run_window(take(job, done, max(total - done, 1)), len(windows)))
    return windows, build_report(iterations, settings.target_job_sec, converged=converged, threads=threads)


def has_converged(previous: Iteration, current: Iteration, tolerance: float) -> bool:
    """Return whether time, memory and output size per event all change by less than the tolerance."""
    pairs = (
        (previous.wall_time_sec / previous.events, current.wall_time_sec / current.events),
        (previous.memory_mb, current.memory_mb),
        (previous.output_size_per_event_kb, current.output_size_per_event_kb),
    )
    return all(abs(old - new) <= tolerance * max(old, new) for old, new in pairs)


def build_report(
    iterations: Sequence[Iteration], target_job_sec: float, *, converged: bool, threads: int = 1
) -> PilotReport | None:
    """Recommend from the largest iteration, in which what every one costs once weighs least.

    Memory is the highest seen plus a margin.
    """
    if not iterations:
        return None
    largest = max(iterations, key=lambda one: one.events)
    time_per_event = largest.wall_time_sec / largest.events
    fitting = target_job_sec / time_per_event if time_per_event > 0 else MAX_EVENTS_PER_JOB
    events_per_job = max(1, int(min(fitting, MAX_EVENTS_PER_JOB)))
    memory_mb = max(one.memory_mb for one in iterations)
    return PilotReport(
        iterations=tuple(iterations),
        per_step=(StepProfile(STEP, time_per_event, memory_mb, largest.output_size_per_event_kb, threads),),
        recommended=Recommended(
            events_per_job=events_per_job,
            memory_mb=math.ceil(memory_mb * MEMORY_MARGIN),
            time_per_job_sec=events_per_job * time_per_event,
            output_size_per_event_kb=largest.output_size_per_event_kb,
        ),
        converged=converged,
    )


def take(job: Job, offset: int, count: int) -> Job:
    """The planned events offset … offset + count - 1 of the job; files without events go with the first."""
    end = offset + count
    if job.generate is not None:
        first = job.generate.first_event + offset
        last = min(job.generate.first_event + end - 1, job.generate.last_event)
        window = replace(job.generate, first_event=first, last_event=last)
        return replace(job, generate=window, events=last - first + 1)
    files, start = [], 0
    for file in job.files:
        size = file.last_event - file.first_event + 1
        first, last = max(start, offset), min(start + size, end)
        if first < last:
            first_event = file.first_event + first - start
            files.append(replace(file, first_event=first_event, last_event=first_event + last - first - 1))
        elif size == 0 and offset == 0:
            files.append(file)
        start += size
    taken = sum(file.last_event - file.first_event + 1 for file in files)
    return replace(job, files=tuple(files), events=taken)


def _measure(
    job: Job, part: int, run_window: Callable[[Job, int], Window]
) -> tuple[Window, Iteration | None]:
    meter = Meter()
    window = run_window(job, part)
    if not window.events_read:
        return window, None
    wall = meter.wall_time_sec()
    return window, Iteration(
        events=window.events_read,
        wall_time_sec=wall,
        memory_mb=peak_rss_mb(),
        cpu_efficiency=meter.cpu_time_sec() / wall if wall > 0 else 0.0,
        output_size_per_event_kb=window.size_bytes / 1024 / window.events_read,
    )
