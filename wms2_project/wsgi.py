"""WSGI entry point."""

import os

from django.core.wsgi import get_wsgi_application

from wms2_project.postgresql.base import bound_waits

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "wms2_project.settings")
application = get_wsgi_application()

from wms2_project.checks import refuse_to_start_unless_configured  # noqa: E402 - Django must be set up

refuse_to_start_unless_configured()
bound_waits()
