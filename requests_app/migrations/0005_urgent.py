"""Add an index for urgent requests."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0004_calls_and_callbacks")]

    operations = [
        migrations.AddIndex(
            model_name="request",
            index=models.Index(
                fields=["-created_at", "-id"], name="request_urgent", condition=models.Q(urgent=True)
            ),
        ),
    ]
