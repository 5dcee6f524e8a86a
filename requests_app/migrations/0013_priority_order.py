"""Requests are listed by priority through an index that tells those of one priority apart."""

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
