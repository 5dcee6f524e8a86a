"""Django settings, one module per concern. Every value an operator may set is an environment variable."""

from wms2_project.settings.apps import *  # noqa: F403
from wms2_project.settings.console import *  # noqa: F403
from wms2_project.settings.database import *  # noqa: F403
from wms2_project.settings.environment import LAB as LAB
from wms2_project.settings.logs import *  # noqa: F403
from wms2_project.settings.policy import *  # noqa: F403
from wms2_project.settings.queue import *  # noqa: F403
from wms2_project.settings.rest import *  # noqa: F403
from wms2_project.settings.security import *  # noqa: F403
from wms2_project.settings.services import *  # noqa: F403
