"""Add an index for complete restarts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0006_by_priority")]

    operations = [
        migrations.AddIndex(
            "request",
            models.Index(
                fields=["previous_version"],
                name="request_complete_restart",
                condition=models.Q(status="completed", previous_version__isnull=False),
            ),
        )
    ]
