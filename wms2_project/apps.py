from importlib import import_module

from django.apps import AppConfig
from django.conf import settings


class KernelConfig(AppConfig):
    name = "wms2_project"
    verbose_name = "Access"

    def ready(self) -> None:
        """Register the startup checks and configure tracing if enabled."""
        import_module("wms2_project.checks")
        import_module("wms2_project.credential_checks")
        import_module("wms2_project.deploy_checks")
        if settings.TRACES in ("otlp", "console"):  # the checks refuse other values
            import_module("wms2_project.observation.tracing_setup").configure(settings.TRACES)
