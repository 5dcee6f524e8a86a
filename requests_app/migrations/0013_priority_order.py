"""Add an index for requests in order of priority and age."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0012_site_alerts")]

    operations = [
        migrations.RemoveIndex("request", "request_by_priority"),
        migrations.AddIndex(
            "request",
            models.Index(fields=["-priority", "-created_at", "-id"], name="request_by_priority"),
        ),
    ]
