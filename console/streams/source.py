"""Sources of changes: announcements in Redis, and marks in the tables that reveal lost announcements."""

from __future__ import annotations

import asyncio
import json
import logging
import urllib.error
import urllib.request

import redis.asyncio
from django.conf import settings
from django.db import DatabaseError, connection
from redis.exceptions import RedisError

from console.streams.database import in_thread
from console.streams.hub import BEAT, Hub
from console.streams.sessions import viewers_of
from wms2_project.changes import Topic, channel

logger = logging.getLogger(__name__)
RETRY_SEC = 2.0
TIMEOUT_SEC = 5.0
BEAT_SEC = 15.0
MARKS_SEC = 30.0
SESSIONS_SEC = 30.0
WEB_SEC = 5.0
# Rows that are only added: a higher number without an announcement means that the announcement was lost.
_MARKS = """
SELECT (SELECT max(id) FROM requests_app_statustransition), (SELECT max(id) FROM dags_app_dagevent),
       (SELECT max(id) FROM requests_app_alert), (SELECT max(id) FROM wms2_project_auditevent)"""
_MARKED = (Topic.FLEET, Topic.FLEET, Topic.ALERTS, Topic.AUDIT)


class Source:
    """Feeds the hub."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.redis_answers = False
        self._announced: set[str] = set()
        self._marks: tuple[int | None, ...] | None = None

    async def listen(self) -> None:
        """Pass announcements on until cancelled. After an interruption every page reads everything again."""
        while True:
            try:
                await self._subscribe()
            except (RedisError, OSError) as error:
                if self.redis_answers:
                    logger.warning("Redis does not answer; retrying every %g s: %s", RETRY_SEC, error)
                self.redis_answers = False
            await asyncio.sleep(RETRY_SEC)

    async def _subscribe(self) -> None:
        client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=TIMEOUT_SEC,
            socket_connect_timeout=TIMEOUT_SEC,
            health_check_interval=10,
            decode_responses=True,
        )
        async with client, client.pubsub() as subscription:
            await subscription.subscribe(channel())
            self.redis_answers = True
            self.hub.resync()
            while True:
                message = await subscription.get_message(ignore_subscribe_messages=True, timeout=1.0)
                if message is not None:
                    topics = json.loads(message["data"])
                    self._announced.update(topics)
                    self.hub.change(topics)

    async def beat(self) -> None:
        """Send every page a heartbeat, so that it notices a dead connection."""
        while True:
            await asyncio.sleep(BEAT_SEC)
            self.hub.broadcast(BEAT)

    async def compare_marks(self) -> None:
        """Announce changes of the tables that Redis did not announce, until cancelled.

        While Redis is down, announce all.
        """
        while True:
            if self.hub.pages:
                try:
                    self._note(await in_thread(read_marks))
                except DatabaseError as error:
                    logger.warning("the database does not answer: %s", error)
                if not self.redis_answers:
                    self.hub.change_all()  # progress leaves no mark
            await asyncio.sleep(MARKS_SEC if self.redis_answers else TIMEOUT_SEC)

    def _note(self, marks: tuple[int | None, ...]) -> None:
        if self._marks is not None:
            pairs = zip(_MARKED, self._marks, marks, strict=True)
            moved = {str(topic) for topic, before, now in pairs if before != now}
            if lost := moved - self._announced:
                self.hub.change(lost)
        self._marks = marks
        self._announced.clear()

    async def check_sessions(self) -> None:
        """End the streams of ended sessions, until cancelled."""
        while True:
            await asyncio.sleep(SESSIONS_SEC)
            sessions = {page.viewer.session for page in self.hub.pages}
            if not sessions:
                continue
            try:
                self.hub.keep(await in_thread(viewers_of, sessions))
            except DatabaseError as error:
                logger.warning("sessions are not checked: %s", error)

    async def watch_web(self) -> None:
        """Send the pages the state of the web process, until cancelled; one probe serves all pages."""
        while settings.WEB_ADDRESS:
            self.hub.tell_web(await asyncio.to_thread(web_answers))
            await asyncio.sleep(WEB_SEC)


def read_marks() -> tuple[int | None, ...]:
    """Return the highest number of each table that only grows."""
    with connection.cursor() as cursor:
        cursor.execute(_MARKS)
        return tuple(cursor.fetchone() or ())


def web_answers() -> bool:
    """Return whether the web process answers in time."""
    try:
        # its own host name, because ALLOWED_HOSTS need not contain the name of the container
        asked = urllib.request.Request(
            f"http://{settings.WEB_ADDRESS}/api/v1/livez", headers={"Host": "127.0.0.1"}
        )
        with urllib.request.urlopen(asked, timeout=TIMEOUT_SEC) as answer:  # noqa: S310 - a setting
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False
