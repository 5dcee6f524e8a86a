from django.apps import AppConfig


class KernelConfig(AppConfig):
    name = "wms2_project"
    verbose_name = "Access"
