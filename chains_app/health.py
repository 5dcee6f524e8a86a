"""The intake in the readiness probe. Imported when the application starts."""

from __future__ import annotations

from chains_app.intake.status import intake_parts
from wms2_project.observation.health import register_ready

register_ready(intake_parts)
