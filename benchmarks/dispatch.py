"""B7: send every due request to its queue, as the sweep does, against a pipelined LPUSH alone."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import redis

from benchmarks.claims import due_requests, make_due
from benchmarks.harness import Measured, alternate, timed
from benchmarks.run import NotRun, Run
from requests_app.states import QUEUES
from requests_app.tasks import sweep
from wms2_project.celery import app

DUE = 10_000
BARE_QUEUE = "bare"
TAKEN = "taken:"
_numbers = count()


@contextmanager
def _open_redis(run: Run) -> Iterator[redis.Redis]:
    if not run.places.redis:
        raise NotRun("REDIS_URL is not set: run ./wms2 bench")
    if not run.redis_was_empty:
        raise NotRun("database 3 of this Redis is not empty, and benchmarks would empty it: flush it first")
    server = redis.Redis.from_url(run.places.redis)
    try:
        server.flushdb()  # removes keys of earlier benchmarks
        run.versions["Redis"] = str(server.info("server")["redis_version"])
    except redis.RedisError as error:
        raise NotRun(f"Redis does not answer: {error}") from error
    try:
        yield server
    finally:
        app.pool.force_close_all()
        server.flushdb()
        server.close()


def take_all(server: redis.Redis) -> int:
    """Take all waiting messages from the queues, as workers do: the sweep sends nothing to a full queue."""
    taken = 0
    for queue in sorted(set(QUEUES.values())):
        waiting: Any = server.llen(queue)
        if waiting:
            server.rename(queue, f"{TAKEN}{next(_numbers)}")
            taken += waiting
    return taken


def taken_ids(server: redis.Redis) -> list[str]:
    """Return the first argument of every task that was taken."""
    ids: list[str] = []
    for key in _taken(server):
        messages: Any = server.lrange(key, 0, -1)
        ids += [_arguments(message)[0] for message in messages]
    return ids


def _taken(server: redis.Redis) -> list[Any]:
    return list(server.scan_iter(f"{TAKEN}*"))


def _arguments(message: bytes) -> list[str]:
    arguments: list[str] = json.loads(b64decode(json.loads(message)["body"]))[0]
    return arguments


def dispatch_due(run: Run) -> Measured:
    """B7: dispatch due requests, each exactly once."""
    due = run.size(DUE, 600)
    server = run.shared("redis", lambda: _open_redis(run))
    with due_requests(run, "dispatch", count=due) as database:

        def again() -> None:
            make_due(database)
            server.flushdb()

        def sweep_all() -> None:
            """Run sweeps until all requests are sent; each sends one batch."""
            handed_out = 0
            while handed_out < due:
                sweep()
                batch = take_all(server)
                assert batch, f"the sweep sent nothing after {handed_out}"
                handed_out += batch

        def check() -> None:
            sweep()  # a request that was sent must not be sent again
            take_all(server)
            ids = taken_ids(server)
            assert len(ids) == len(set(ids)) == due, f"{len(ids)} tasks for {due} due requests"

        again()
        sweep_all()
        check()
        message = b"x" * _usual_size(server)

        def push_all() -> None:
            pipeline = server.pipeline(transaction=False)
            for _ in range(due):
                pipeline.lpush(BARE_QUEUE, message)
            pipeline.execute()

        pairs = alternate(
            timed(sweep_all, before=again, after=check),
            timed(push_all, before=again),
            repeat=run.repeat,
        )
    rate = due / sorted(pairs.candidate)[len(pairs.candidate) // 2]
    note = f"{rate:,.0f}/s, {len(message)} bytes each, none twice"
    return Measured(value=pairs.ratio, samples=pairs.as_samples(), note=note, spread=pairs.spread)


def _usual_size(server: redis.Redis) -> int:
    message: Any = server.lindex(_taken(server)[0], 0)
    return len(message)
