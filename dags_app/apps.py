from django.apps import AppConfig


class DAGsConfig(AppConfig):
    name = "dags_app"
    verbose_name = "DAGs"
