from importlib import import_module

from django.apps import AppConfig


class KernelConfig(AppConfig):
    name = "wms2_project"
    verbose_name = "Access"

    def ready(self) -> None:
        """Register the startup checks."""
        import_module("wms2_project.checks")
