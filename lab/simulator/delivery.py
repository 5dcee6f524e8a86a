"""Celery's broker in memory: messages that the sweep sends, and their delivery to tasks in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from requests_app import tasks
from wms2_project.celery import app

TASKS = {task.name: task for task in (tasks.advance_request, tasks.advance_block, tasks.deliver_callback)}


@dataclass(frozen=True, slots=True)
class Message:
    """A task to run and its argument."""

    task: str
    argument: str


class Broker:
    """Replacement of Celery's producer."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.connection = self

    @contextmanager
    def _reraise_as_library_errors(self) -> Iterator[None]:
        yield  # Celery calls it on the connection of a producer

    def publish(self, body: Any, **options: Any) -> None:
        """Take a message as `send_task_message` gives it."""
        arguments, _, _ = body
        self.sent.append(Message(options["headers"]["task"], arguments[0]))

    @contextmanager
    def batch(self) -> Iterator[None]:
        yield

    @contextmanager
    def connected(self) -> Iterator[None]:
        """Route the messages of tasks in this process to this broker."""

        @contextmanager
        def producer_or_acquire(producer: Any = None) -> Iterator[Any]:
            yield producer or self

        with patch.object(app, "producer_or_acquire", producer_or_acquire):
            yield

    def take(self) -> list[Message]:
        """Return and remove the messages that were sent."""
        sent, self.sent = self.sent, []
        return sent


def deliver(message: Message) -> None:
    """Run the message's task as a worker does."""
    TASKS[message.task].run(message.argument)
