"""Limits of calls per person and address, counted in Redis for all processes. No limit without Redis."""

from __future__ import annotations

import time
from functools import cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, ClassVar

import limits
from django.conf import settings
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter
from rest_framework.exceptions import APIException, AuthenticationFailed, Throttled
from rest_framework.request import Request as HttpRequest
from rest_framework.throttling import BaseThrottle

from wms2_project.access.proxies import client_address
from wms2_project.redis_state import TIMEOUT_SEC, ask

PREFIX = "wms2-throttle"


@cache
def _limiter(url: str) -> SlidingWindowCounterRateLimiter:
    patience: dict[str, Any] = {"socket_timeout": TIMEOUT_SEC, "socket_connect_timeout": TIMEOUT_SEC}
    return SlidingWindowCounterRateLimiter(RedisStorage(url, key_prefix=PREFIX, **patience))


def seconds_to_wait(kind: str, who: str) -> float:
    """Count one call. Return 0 if it is allowed, else the seconds to wait."""
    return _seconds_left(kind, who, counted=True)


def seconds_until_allowed(kind: str, who: str) -> float:
    """Return the seconds until the next call is allowed, without counting one."""
    return _seconds_left(kind, who, counted=False)


def _seconds_left(kind: str, who: str, *, counted: bool) -> float:
    rate = limits.parse(settings.THROTTLE_RATES[kind])

    def read(_client: Any) -> float:
        limiter = _limiter(settings.REDIS_URL)
        if (limiter.hit if counted else limiter.test)(rate, kind, who):
            return 0.0
        return max(1.0, limiter.get_window_stats(rate, kind, who).reset_time - time.time())

    return ask(read, otherwise=0.0)


def address_block(address: str) -> str:
    """Return what counts as one address: the /64 network of an IPv6 address, or the address itself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else address


def refusal(request: HttpRequest, reason: str) -> APIException:
    """Return the error for a wrong credential: its reason, or a throttle after too many attempts."""
    wait = seconds_to_wait("failures", address_block(client_address(request._request)))
    return Throttled(wait) if wait else AuthenticationFailed(reason)


class _Throttle(BaseThrottle):
    kind: ClassVar[str]
    _wait: float | None = None

    def who(self, request: HttpRequest) -> str:
        """Return the key under which calls are counted; empty: not counted."""
        raise NotImplementedError

    def allow_request(self, request: HttpRequest, view: Any) -> bool:
        who = self.who(request)
        self._wait = (seconds_to_wait(self.kind, who) or None) if who else None
        return self._wait is None

    def wait(self) -> float | None:
        return self._wait


class UserThrottle(_Throttle):
    """Limits calls per user."""

    kind = "user"

    def who(self, request: HttpRequest) -> str:
        return str(request.user.pk or "")


class AddressThrottle(_Throttle):
    """Limits calls without login per address."""

    kind = "anonymous"

    def who(self, request: HttpRequest) -> str:
        return "" if request.user.is_authenticated else address_block(client_address(request._request)) or "?"
