from importlib import import_module

from django.apps import AppConfig


class RequestsConfig(AppConfig):
    name = "requests_app"
    verbose_name = "Requests"

    def ready(self) -> None:
        """Register this layer's health checks."""
        import_module("requests_app.health")
