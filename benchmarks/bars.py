"""The table of bars: what is measured, against which reference, and the required value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the table. `at_least` bars want large values, the others small ones."""

    id: str
    what: str
    against: str
    bar: float
    moonshot: float
    unit: str = "×"
    at_least: bool = False

    def meets(self, value: float) -> bool:
        """Return whether the value meets the bar."""
        return self._reaches(value, self.bar)

    def reaches_moonshot(self, value: float) -> bool:
        """Return whether the value reaches the more ambitious goal."""
        return self._reaches(value, self.moonshot)

    def _reaches(self, value: float, limit: float) -> bool:
        return value >= limit if self.at_least else value <= limit

    def shown(self, value: float) -> str:
        """Return the value with its unit, to three digits."""
        text = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
        return f"{text}{self.unit}" if self.unit == "×" else f"{text} {self.unit}"

    @property
    def limit(self) -> str:
        """The bar as text, such as `≤ 2×`."""
        return f"{'≥' if self.at_least else '≤'} {self.shown(self.bar)}"


BARS: dict[str, Bar] = {
    bar.id: bar
    for bar in (
        Bar("B1", "split 100k files × 20 lumis, masked, and group", "one pass over the 2M lumis", 15, 4),
        Bar("B2", "the same input, splitting", "WMCore's splitter, times faster", 8, 50, at_least=True),
        Bar("B3", "write a DAG of 100k nodes", "write and fsync of the bytes", 15, 3),
        Bar("B4", "parse a status file of 100k nodes", "reading the file", 25, 2),
        Bar("B5", "one monitoring sweep, 300 DAGs × 10k nodes", "seconds", 2, 0.2, unit="s"),
        Bar("B6", "claim due requests", "rate of the bare SQL", 50, 90, unit="%", at_least=True),
        Bar("B7", "dispatch 10k due requests, none twice", "pipelined LPUSH", 70, 4),
        Bar("B8", "assign 100k files in the ledger", "rate of COPY + join", 70, 95, unit="%", at_least=True),
        Bar("B9", "GET /requests, p99, 1M rows", "the page by SQL json_agg, p99", 4, 1.5),
        Bar("B10", "GET /requests, page 10,000", "page 1", 1.2, 1.0),
        Bar("B11", "console list of requests, 1M rows", "1k rows", 1.5, 1.05),
        Bar("B12", "request → DAG of 10k nodes queued", "seconds, real schedd", 2, 0.5, unit="s"),
        Bar("B13", "100 requests → 1M nodes queued", "seconds, real schedd", 120, 30, unit="s"),
        Bar("B14", "group finished → in the database, p99", "seconds", 5, 1, unit="s"),
        Bar("B15", "worker killed → its work resumed", "seconds", 35, 3, unit="s"),
        Bar("B16", "memory per 1M managed nodes", "growth of the process", 500, 100, unit="MB"),
        Bar("B17", "20 clients at once, p99, 1M rows", "milliseconds, gunicorn", 500, 100, unit="ms"),
        Bar(
            "B18",
            "10k announcements from RabbitMQ, 1 % malformed, 10 % twice",
            "rate of batched INSERT … ON CONFLICT",
            50,
            90,
            unit="%",
            at_least=True,
        ),
        Bar("B19", "one sweep over 10k running chains, 1 % with news", "seconds", 2, 0.2, unit="s"),
        Bar("B20", "producer completed → next request stored, p99", "seconds", 3, 1, unit="s"),
        Bar("B21", "1 name, 1,000 masks; wiring of a 1,000-fold scatter", "of 20 ms and 1 s", 1, 0.2),
        Bar(
            "B22",
            "lend files, 16 connections",
            "rate of the bare UPDATE … SKIP LOCKED",
            50,
            90,
            unit="%",
            at_least=True,
        ),
        Bar("B23", "calls of runners, 64 clients", "calls a second", 170, 500, unit="calls/s", at_least=True),
        Bar("B24", "lend among 1M files; 900k processed", "1k files, of 1.3× and 1.5×", 1, 0.81),
        Bar("B25", "runner killed → its files lent again", "sweeps after its lease", 2, 1, unit="sweeps"),
        Bar("B26", "200 live pages: CPU at rest; delay of a change, p99", "of 5 % and 1 s", 1, 0.3),
        Bar(
            "B27",
            "request page of a 10k-node DAG: server; Chromium; graph drawn",
            "of 150 ms, 1 s, 1 s",
            1,
            0.4,
        ),
        Bar("B28", "`wms2 list` start-up, cold", "python -c pass, CPU time", 6, 3),
        Bar("B29", "POST → announced, trivial request, idle pool", "its DAG alone, same run", 1.5, 1.1),
        Bar("B30", "plan and /ledger of a 1M-file request", "of 60 s, 500 MB and linear", 1, 0.17),
        Bar("B31", "merge 100 ROOT files", "reading and writing the bytes, synced", 8, 2),
        Bar("B32", "1,000 small files through XRootD with tokens", "plain copies, synced", 3, 1.5),
        Bar("B33", "a job in WMS2's wrapper", "CPU seconds beyond the bare payload", 2, 0.3, unit="s"),
    )
}
