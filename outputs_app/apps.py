from django.apps import AppConfig


class OutputsConfig(AppConfig):
    name = "outputs_app"
    verbose_name = "Outputs"
