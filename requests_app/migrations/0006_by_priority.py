"""Add an index for requests by priority."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0005_urgent")]

    operations = [
        migrations.AddIndex("request", models.Index(fields=["priority"], name="request_by_priority"))
    ]
