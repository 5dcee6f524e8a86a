"""A guard before each outside service, shared by all workers through Redis.

It keeps our calls below a rate and grants what is left of it to the most urgent caller that waits. After
some failures in a row it lets nobody call for a while, so that a service that is down costs no worker its
time. Without Redis there is no guard, and calls go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass

import pybreaker
import redis
from limits import RateLimitItemPerSecond
from limits.errors import StorageError
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter

from wms2_project.errors import RateLimited, ServiceUnavailable, TransientError

logger = logging.getLogger(__name__)
SERVICES = ("reqmgr2", "dbs", "rucio", "cric")
REDIS_PATIENCE_SEC = 2.0
MAX_TURN_SEC = 10.0
PLACE_SEC = 3.0  # how long a caller that waits keeps less urgent ones away; it renews that while it waits
USUAL_RANK = 1
NOBODY_TRIED_SEC = 1800.0  # longer than any backoff: a breaker this old only says that nobody called since


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """How much a service is called, and how soon it is left alone, for how long."""

    redis_url: str
    calls_per_sec: int
    failures: int
    pause_sec: float
    count_limited: Callable[[str, str], None] = lambda _service, _rank: None


@dataclass(frozen=True, slots=True)
class Outage:
    """A service nobody calls for now, and what it said last."""

    service: str
    since: float
    message: str


@dataclass(slots=True)
class Turn:
    """How urgent calls are (0: most), and how long the first one waits; later ones wait MAX_TURN_SEC."""

    rank: int
    patience_sec: float
    calls: int = 0


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


@contextmanager
def calling_as(rank: int, *, patience_sec: float) -> Iterator[None]:
    """Make the calls inside with this rank; the first one waits for so long at most."""
    token = _turn.set(Turn(rank, patience_sec))
    try:
        yield
    finally:
        _turn.reset(token)


def current_turn() -> Turn:
    return _turn.get() or Turn(USUAL_RANK, MAX_TURN_SEC)


class Guard:
    """Stands before one service."""

    def __init__(self, service: str, options: GuardOptions) -> None:
        self.service = service
        self._options = options
        self._redis = _connect(options.redis_url)
        self._storage = RedisStorage(
            options.redis_url,
            wrap_exceptions=True,
            socket_timeout=REDIS_PATIENCE_SEC,
            socket_connect_timeout=REDIS_PATIENCE_SEC,
        )
        self._limiter = FixedWindowRateLimiter(self._storage)
        self._breaker: pybreaker.CircuitBreaker | None = None

    @contextmanager
    def calling(self, operation: str = "") -> Iterator[None]:
        """Wait for our turn and make the call inside; refused at once while the service is left alone.

        A call of one operation that works closes the breaker for all. What failed may go on failing, so an
        outage is over only when the operation that failed works again.
        """
        breaker = self._shared_breaker()
        if breaker is not None:
            self._take_turn()
        try:
            with self._noting(breaker, operation) if breaker else nullcontext():
                yield
        except pybreaker.CircuitBreakerError as error:
            said = self._read("why")
            raise ServiceUnavailable(
                f"{self.service} is not called for {self._options.pause_sec:g} s after failing: {said}"
            ) from error

    @contextmanager
    def _noting(self, breaker: pybreaker.CircuitBreaker, operation: str) -> Iterator[None]:
        """Make the call through the breaker, and keep which operations fail while there is an outage."""
        key = _failing_key(self.service)
        try:
            with breaker.calling():
                yield
        except pybreaker.CircuitBreakerError:
            raise
        except Exception as error:
            with suppress(redis.RedisError):
                if not _is_failure(error):
                    self._redis.hdel(key, operation)  # an answer, if not the one hoped for
                elif breaker.current_state != pybreaker.STATE_CLOSED or self._redis.hexists(key, operation):
                    self._redis.hset(key, operation, str(time.time()))
                    self._redis.expire(key, int(NOBODY_TRIED_SEC))
            raise
        with suppress(redis.RedisError):
            self._redis.hdel(key, operation)

    def _shared_breaker(self) -> pybreaker.CircuitBreaker | None:
        """Made at the first call that finds Redis."""
        try:
            if self._breaker is None:
                namespace = _namespace(self.service)
                self._breaker = pybreaker.CircuitBreaker(
                    fail_max=self._options.failures,
                    reset_timeout=self._options.pause_sec,
                    exclude=[lambda error: not _is_failure(error)],
                    listeners=[_Memory(self)],
                    state_storage=pybreaker.CircuitRedisStorage(
                        pybreaker.STATE_CLOSED, self._redis, namespace=namespace
                    ),
                    throw_new_error_on_trip=False,
                )
            self._redis.ping()
        except redis.RedisError as error:
            logger.warning("no guard before %s: Redis does not answer: %s", self.service, error)
            return None
        return self._breaker

    def _take_turn(self) -> None:
        """Wait until the limit has a call left that nothing more urgent waits for."""
        limit, turn = RateLimitItemPerSecond(self._options.calls_per_sec), current_turn()
        end = time.monotonic() + (MAX_TURN_SEC if turn.calls else turn.patience_sec)
        try:
            while self._is_outranked(turn.rank) or not self._limiter.hit(limit, "wms2", self.service):
                self._redis.set(self._place(turn.rank), 1, px=int(PLACE_SEC * 1000))
                if time.monotonic() >= end:
                    self._options.count_limited(self.service, str(turn.rank))
                    raise RateLimited(
                        f"our own limit of {limit.amount} calls per second to {self.service} is used up",
                        cure="Retried automatically. WMS2_SERVICE_CALLS_PER_SEC sets the limit",
                    )
                reset = self._limiter.get_window_stats(limit, "wms2", self.service).reset_time
                time.sleep(min(max(reset - time.time(), 0.01), 1.0))
        except (StorageError, redis.RedisError):
            return
        turn.calls += 1

    def _is_outranked(self, rank: int) -> bool:
        """Does a more urgent call wait?"""
        places = [self._place(one) for one in range(rank)]
        return bool(places) and bool(self._redis.exists(*places))

    def _place(self, rank: int) -> str:
        return f"{_namespace(self.service)}:waiting:{rank}"

    def remember(self, message: str) -> None:
        """What the service said last, for people."""
        self._redis.set(f"{_namespace(self.service)}:why", message[:1000])

    def _read(self, key: str) -> str:
        return _text(self._redis.get(f"{_namespace(self.service)}:{key}"))


class _Memory(pybreaker.CircuitBreakerListener):
    """Keeps why a service is left alone, and logs when that begins and ends."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def failure(self, cb: pybreaker.CircuitBreaker, exc: BaseException) -> None:
        self._guard.remember(str(exc))

    def state_change(self, cb: pybreaker.CircuitBreaker, old_state: object, new_state: object) -> None:
        logger.warning("%s: calls are %s now", self._guard.service, cb.current_state)


def outages(redis_url: str, *, now: float, services: Sequence[str] = SERVICES) -> list[Outage]:
    """The services that are left alone now, or of which an operation still fails after they were.

    For health pages; nothing is known while Redis is away.
    """
    keys = ("pybreaker:state", "pybreaker:opened_at", "why")
    try:
        with _connect(redis_url) as client, client.pipeline(transaction=False) as asked:
            for service in services:
                asked.mget([f"{_namespace(service)}:{key}" for key in keys])
                asked.hvals(_failing_key(service))
            rows = asked.execute()
    except redis.RedisError:
        return []
    found = []
    for service, told, failing in zip(services, rows[::2], rows[1::2], strict=True):
        state, opened_at, why = (_text(value) for value in told)
        since = float(opened_at or 0)
        tried = [float(_text(at)) for at in failing]
        if state not in ("", pybreaker.STATE_CLOSED):
            tried.append(since)
        if now - max(tried, default=0.0) < NOBODY_TRIED_SEC:
            found.append(Outage(service=service, since=since, message=why))
    return found


def _is_failure(error: BaseException) -> bool:
    """Return whether the error speaks against the service: a refusal does not."""
    return isinstance(error, TransientError | OSError)


def _failing_key(service: str) -> str:
    return f"{_namespace(service)}:failing"


def _connect(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url, socket_timeout=REDIS_PATIENCE_SEC, socket_connect_timeout=REDIS_PATIENCE_SEC
    )


def _namespace(service: str) -> str:
    return f"wms2:guard:{service}"


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
