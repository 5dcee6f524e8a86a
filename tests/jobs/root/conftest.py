from __future__ import annotations

from tests.job_world import _keep_signal_handlers, tarball, world

__all__ = ["_keep_signal_handlers", "tarball", "world"]
