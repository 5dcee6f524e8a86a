"""Add an index for requests that ended lately."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0008_newest_alerts")]

    operations = [
        migrations.AddIndex(
            "request",
            models.Index(
                fields=["status_since"],
                name="request_ended",
                condition=models.Q(status__in=["aborted", "completed", "failed"]),
            ),
        )
    ]
