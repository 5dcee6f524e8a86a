"""Add the exhausted resource and the end of the retries to clusters of failures."""

from typing import Any

from django.db import migrations, models

RESOURCES = {"memory": [8004, 8030, 8031, 50660, 50661], "wall_time": [50664, 71304]}


def fill_resources(apps: Any, schema_editor: Any) -> None:
    clusters = apps.get_model("dags_app", "FailureCluster").objects
    for resource, codes in RESOURCES.items():
        clusters.filter(exit_code__in=codes).update(resource=resource)


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0012_operator_decisions")]

    operations = [
        migrations.AddField(
            "failurecluster", "resource", models.CharField(blank=True, default="", max_length=20)
        ),
        migrations.AddField(
            "failurecluster", "limit", models.CharField(blank=True, default="", max_length=200)
        ),
        migrations.RunPython(fill_resources, migrations.RunPython.noop),
    ]
