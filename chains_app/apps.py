from importlib import import_module

from django.apps import AppConfig


class ChainsConfig(AppConfig):
    name = "chains_app"
    verbose_name = "Chains"

    def ready(self) -> None:
        """Register this layer's health and startup checks."""
        import_module("chains_app.health")
        import_module("chains_app.checks")
