"""Add an index for the list of alerts, open ones first."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0007_complete_restarts")]

    operations = [
        migrations.AddIndex("alert", models.Index(fields=["-closed_at", "-id"], name="alert_newest"))
    ]
