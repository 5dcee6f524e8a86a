from importlib import import_module

from django.apps import AppConfig


class SitesConfig(AppConfig):
    name = "sites_app"
    verbose_name = "Sites"

    def ready(self) -> None:
        """Register this layer's health checks."""
        import_module("sites_app.health")
