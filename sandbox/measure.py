"""Wall time, CPU time and memory of this process and the children it has waited for."""

from __future__ import annotations

import resource
import time


class Meter:
    """Measures from its creation."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._cpu = _cpu_time_sec()

    def wall_time_sec(self) -> float:
        return time.monotonic() - self._wall

    def cpu_time_sec(self) -> float:
        return _cpu_time_sec() - self._cpu


def peak_rss_mb() -> int:
    """Return the highest resident memory so far of this process or a child, rounded up."""
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return -(-max(peaks) // 1024)


def _cpu_time_sec() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
