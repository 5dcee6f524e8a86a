"""Sessions of the console, for processes that are not Django's web process."""

from __future__ import annotations

import logging
from importlib import import_module

from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.http import HttpRequest

from wms2_project.access.roles import Role, role_of

logger = logging.getLogger(__name__)


def session_role(session_key: str) -> Role:
    """Return the role of the session's user; ANONYMOUS if there is no such session or no database."""
    asked = HttpRequest()
    asked.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    try:
        return role_of(get_user(asked))
    except DatabaseError:
        logger.exception("the session cannot be read")
        return Role.ANONYMOUS
    finally:
        close_old_connections()
