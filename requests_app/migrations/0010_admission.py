"""The gate a request waits at: admission skips requests that another gate stops."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0009_lately_ended")]

    operations = [
        migrations.AddField("request", "wait_gate", models.CharField(blank=True, default="", max_length=32)),
    ]
