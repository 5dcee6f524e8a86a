from importlib import import_module

from django.apps import AppConfig


class DAGsConfig(AppConfig):
    name = "dags_app"
    verbose_name = "DAGs"

    def ready(self) -> None:
        """Register the health and startup checks of this layer."""
        import_module("dags_app.health")
        import_module("dags_app.checks")
