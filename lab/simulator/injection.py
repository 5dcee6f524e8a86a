"""Carries out a fault schedule: hooks at effects, messages and calls, and faults between steps."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection

from dags_app.services import monitoring
from lab.cms_world.messages import Call, Reply
from lab.simulator.cms import READS, Carry
from lab.simulator.delivery import Message, deliver
from lab.simulator.faults import CMS_CALLS, EFFECTS, MESSAGES, SCHEDD_CALLS, Fault, Kind
from lab.simulator.laboratory import Laboratory
from lab.simulator.schedd import WRITES
from requests_app import tasks
from requests_app.models import Request
from requests_app.services.stopping import stop_request
from wms2_project.errors import ScheddUnreachable, Wms2Error
from wms2_project.failpoints import observe_failpoints


class Crash(BaseException):
    """Death of the worker process: no handler runs, open transactions are rolled back."""


@dataclass(slots=True)
class Counts:
    """Numbers of effects, messages and calls so far."""

    effects: int = 0
    messages: int = 0
    cms: int = 0
    schedd: int = 0
    steps: int = 0


@dataclass(slots=True)
class Injection:
    """Injects the faults of one simulation. `hit` are those that took effect."""

    lab: Laboratory
    faults: tuple[Fault, ...]
    counts: Counts = field(default_factory=Counts)
    hit: list[Fault] = field(default_factory=list)
    quiet: bool = False  # no more faults
    current: Message | None = None
    outage_until: dict[str, float] = field(default_factory=dict)
    silent_until: float = 0.0
    nested: bool = False
    named: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    again: list[tuple[int, Message]] = field(default_factory=list)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inject the faults until the block ends."""
        lab = self.lab
        lab.cms.intercept, lab.schedd.on_call, lab.deliver = self.on_cms, self.on_schedd, self.on_message
        with ExitStack() as stack:
            stack.enter_context(observe_failpoints(self.on_effect))
            yield

    def due(self, kinds: tuple[Kind, ...], number: int, where: str = "") -> Iterator[Fault]:
        """Yield the faults of these kinds for this number, or for this name and its number."""
        self.named[kinds[0], where] += 1
        if not self.quiet and not self.nested:
            for fault in self.faults:
                at = self.named[kinds[0], where] if fault.where else number
                if fault.kind in kinds and fault.at == at and fault.where in ("", where):
                    self.hit.append(fault)
                    yield fault

    # Effects.

    def on_effect(self, name: str) -> None:
        if self.nested:
            return
        self.counts.effects += 1
        for fault in self.due(EFFECTS, self.counts.effects, name):
            if fault.kind is Kind.CRASH:
                raise Crash
            self._beside(_interrupt if fault.kind is Kind.INTERRUPT else partial(_repeat, self.current))

    def _beside(self, act: Callable[[], None]) -> None:
        """Run the action of another process or person now, in a separate database session."""
        errors = list[BaseException]()

        def work() -> None:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET lock_timeout = '300ms'")
                act()
            except (DatabaseError, Wms2Error, ExceptionGroup):
                pass  # refused, or it waited for a lock of the first one: a task is repeated by the sweep
            except BaseException as error:  # noqa: BLE001 - raised in the first thread
                errors.append(error)
            finally:
                connection.close()

        self.nested = True
        try:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            self.nested = False
        if errors:
            raise errors[0]

    # Messages.

    def on_message(self, message: Message) -> None:
        """Deliver the message, or apply its faults."""
        self.counts.messages += 1
        repeats = 0
        for fault in self.due(MESSAGES, self.counts.messages):
            if fault.kind is Kind.LOSE:
                return
            if fault.kind is Kind.LATE:
                self.lab.clock.after(abs(fault.amount), lambda: self.again.append((0, message)))
                return
            repeats += 1
        self.run(partial(deliver, message), message)
        for _ in range(repeats):
            self.again.append((self.counts.messages + 2, message))

    def deliver_again(self) -> None:
        """Deliver postponed messages."""
        due = [message for number, message in self.again if number <= self.counts.messages]
        self.again = [(number, message) for number, message in self.again if number > self.counts.messages]
        for message in due:
            self.run(partial(deliver, message), message)

    def run(self, work: Callable[[], Any], message: Message | None = None) -> None:
        """Run the work of a worker, which a fault may kill."""
        self.current = message
        try:
            work()
        except Crash:
            connection.close()  # with its advisory locks; the next worker has a session of its own
            monitoring._known.clear()
        except ExceptionGroup:
            pass  # parts of the monitor's work failed; it is repeated
        finally:
            self.current = None

    # Calls.

    def on_cms(self, call: Call, carry: Carry) -> Reply | None:
        if self.nested:
            return carry(call)
        self.counts.cms += 1
        refused = Reply(503, b"simulated", "text/plain")
        writes, what = call.method not in READS, f"{call.method} {'/'.join((call.service, *call.parts[:1]))}"
        if writes:
            self.on_effect(f"before {what}")
        for fault in self.due(CMS_CALLS, self.counts.cms, what):
            match fault.kind:
                case Kind.REFUSE:
                    return refused
                case Kind.CUT:
                    return None
                case Kind.FORGET:
                    carry(call)
                    return None
                case Kind.TWICE:
                    carry(call)
                case _:
                    self.outage_until[call.service] = self.lab.clock.now + abs(fault.amount)
        if self.lab.clock.now < self.outage_until.get(call.service, 0.0):
            return refused
        reply = carry(call)
        if writes:
            self.on_effect(f"after {what}")
        return reply

    def on_schedd(self, operation: str) -> None:
        if self.nested:
            return
        self.counts.schedd += 1
        if operation in WRITES:
            self.on_effect(f"before {operation}")
        for fault in self.due(SCHEDD_CALLS, self.counts.schedd, operation):
            if fault.kind is Kind.SILENCE:
                self.silent_until = self.lab.clock.now + abs(fault.amount)
            elif operation == "submit_dag":
                self.lab.schedd.lose_submit_answer()
        if self.lab.clock.now < self.silent_until:
            raise ScheddUnreachable(f"{operation}: silent", cure="Retried automatically")

    def stop(self) -> None:
        """End all faults that last."""
        self.quiet = True
        self.outage_until.clear()
        self.silent_until = 0.0
        self.lab.clock.skew_sec = 0.0
        with suppress(AttributeError):
            self.lab.schedd.answer()


def _repeat(message: Message | None) -> None:
    """Run the same work as the first worker, and observe the DAGs."""
    if message is not None:
        deliver(message)
    tasks.monitor.run()


def _interrupt() -> None:
    request = Request.objects.select_related("workflow").get()
    stop_request(request=request, actor="user:olga", reason="simulated")
