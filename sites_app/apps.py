from django.apps import AppConfig


class SitesConfig(AppConfig):
    name = "sites_app"
    verbose_name = "Sites"
