"""Nodes with jobs in the queue, by group that runs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0028_runners")]

    operations = [
        migrations.AddField("mergegroup", name, models.PositiveIntegerField(default=0))
        for name in ("nodes_running", "nodes_idle", "nodes_held")
    ]
