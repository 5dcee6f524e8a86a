from importlib import import_module

from django.apps import AppConfig


class DAGsConfig(AppConfig):
    name = "dags_app"
    verbose_name = "DAGs"

    def ready(self) -> None:
        """Register this layer's health and startup checks."""
        import_module("dags_app.health")
        import_module("dags_app.checks")
