"""Index of finished groups by time, for the throughput of the last hours."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0030_pull_workflows")]

    operations = [
        migrations.AddIndex(
            "mergegroup",
            models.Index(
                fields=["finished_at"],
                name="group_by_finish",
                condition=models.Q(finished_at__isnull=False),
            ),
        ),
    ]
