"""Guards of the external services, shared by all workers through Redis.

A guard keeps calls below a rate and grants them to the most urgent waiting caller. After some failures in a
row it refuses calls for a while, so that a service that is down does not block workers. Without Redis,
calls are not guarded.
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
PLACE_SEC = 3.0  # how long a waiting caller blocks less urgent ones; renewed while it waits
USUAL_RANK = 1
OUTAGE_MAX_AGE_SEC = 1800.0  # longer than any backoff: without calls for so long, the state is unknown


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """Rate limit and circuit breaker of a service."""

    redis_url: str
    calls_per_sec: int
    failures: int
    pause_sec: float
    count_limited: Callable[[str, str], None] = lambda _service, _rank: None
    max_turn_sec: float = MAX_TURN_SEC
    place_sec: float = PLACE_SEC
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class Outage:
    """A service that is not called at present, and its last error."""

    service: str
    since: float
    message: str


@dataclass(slots=True)
class Turn:
    """The urgency of calls (0: most) and the patience of the first one; later ones wait `max_turn_sec`."""

    rank: int
    patience_sec: float
    calls: int = 0


_turn: ContextVar[Turn | None] = ContextVar("turn", default=None)


@contextmanager
def calling_as(rank: int, *, patience_sec: float) -> Iterator[None]:
    """Make the calls in this block with this rank; the first waits `patience_sec` at most."""
    token = _turn.set(Turn(rank, patience_sec))
    try:
        yield
    finally:
        _turn.reset(token)


def current_turn() -> Turn:
    return _turn.get() or Turn(USUAL_RANK, MAX_TURN_SEC)


class Guard:
    """Rate limit and circuit breaker of one service."""

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
        """Wait for a free call and run the block; raise ServiceUnavailable while the breaker is open.

        One successful operation closes the breaker for all operations. Others may still fail, so an outage
        ends only when the operation that failed succeeds again.
        """
        breaker = self._shared_breaker()
        if breaker is not None:
            self._take_turn()
        try:
            with self._noting(breaker, operation) if breaker else nullcontext():
                yield
        except pybreaker.CircuitBreakerError as error:
            last = self._read("why")
            raise ServiceUnavailable(
                f"{self.service} is not called for {self._options.pause_sec:g} s after failing: {last}"
            ) from error

    @contextmanager
    def _noting(self, breaker: pybreaker.CircuitBreaker, operation: str) -> Iterator[None]:
        """Run the call through the breaker and record the operations that fail during an outage."""
        key = _failing_key(self.service)
        try:
            with breaker.calling():
                yield
        except pybreaker.CircuitBreakerError:
            raise
        except Exception as error:
            with suppress(redis.RedisError):
                if not _is_failure(error):
                    self._redis.hdel(key, operation)  # the service responded
                elif breaker.current_state != pybreaker.STATE_CLOSED or self._redis.hexists(key, operation):
                    self._redis.hset(key, operation, str(time.time()))
                    self._redis.expire(key, int(OUTAGE_MAX_AGE_SEC))
            raise
        with suppress(redis.RedisError):
            self._redis.hdel(key, operation)

    def _shared_breaker(self) -> pybreaker.CircuitBreaker | None:
        """Return the breaker, created at the first call; None if Redis does not answer."""
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
            logger.warning("calls to %s are not guarded: Redis does not answer: %s", self.service, error)
            return None
        return self._breaker

    def _take_turn(self) -> None:
        """Wait until the limit has a free call and no more urgent caller waits."""
        limit, turn = RateLimitItemPerSecond(self._options.calls_per_sec), current_turn()
        end = time.monotonic() + (self._options.max_turn_sec if turn.calls else turn.patience_sec)
        try:
            while self._is_outranked(turn.rank) or not self._limiter.hit(limit, "wms2", self.service):
                self._redis.set(self._place(turn.rank), 1, px=int(self._options.place_sec * 1000))
                if time.monotonic() >= end:
                    self._options.count_limited(self.service, str(turn.rank))
                    raise RateLimited(
                        f"the WMS2 limit of {limit.amount} calls per second to {self.service} is used up",
                        cure="Retried automatically. WMS2_SERVICE_CALLS_PER_SEC sets the limit",
                    )
                reset = self._limiter.get_window_stats(limit, "wms2", self.service).reset_time
                self._options.sleep(min(max(reset - time.time(), 0.01), 1.0))
        except (StorageError, redis.RedisError):
            return
        turn.calls += 1

    def _is_outranked(self, rank: int) -> bool:
        """Return whether a more urgent call waits."""
        places = [self._place(one) for one in range(rank)]
        return bool(places) and bool(self._redis.exists(*places))

    def _place(self, rank: int) -> str:
        return f"{_namespace(self.service)}:waiting:{rank}"

    def remember(self, message: str) -> None:
        """Store the service's last error."""
        self._redis.set(f"{_namespace(self.service)}:why", message[:1000])

    def _read(self, key: str) -> str:
        return _text(self._redis.get(f"{_namespace(self.service)}:{key}"))


class _Memory(pybreaker.CircuitBreakerListener):
    """Stores the last error of a service and logs changes of its breaker."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def failure(self, cb: pybreaker.CircuitBreaker, exc: BaseException) -> None:
        self._guard.remember(str(exc))

    def state_change(self, cb: pybreaker.CircuitBreaker, old_state: object, new_state: object) -> None:
        logger.warning("%s: calls are %s now", self._guard.service, cb.current_state)


def outages(redis_url: str, *, now: float, services: Sequence[str] = SERVICES) -> list[Outage]:
    """Return the services whose breaker is open, or with an operation that still fails since then.

    Empty while Redis is unavailable.
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
    for service, values, failing in zip(services, rows[::2], rows[1::2], strict=True):
        state, opened_at, why = (_text(value) for value in values)
        since = float(opened_at or 0)
        tried = [float(_text(at)) for at in failing]
        if state not in ("", pybreaker.STATE_CLOSED):
            tried.append(since)
        if now - max(tried, default=0.0) < OUTAGE_MAX_AGE_SEC:
            found.append(Outage(service=service, since=since, message=why))
    return found


def _is_failure(error: BaseException) -> bool:
    """Return whether the error counts against the service; a refusal does not."""
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
