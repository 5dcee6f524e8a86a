from importlib import import_module

from django.apps import AppConfig


class RequestsConfig(AppConfig):
    name = "requests_app"
    verbose_name = "Requests"

    def ready(self) -> None:
        """Register this layer's health checks, and how its waiting requests are made due."""
        import_module("requests_app.health")
        import_module("requests_app.admission")
