"""Add wake-ups of requests that wait at a gate."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0006_audit_is_not_emptied")]

    operations = [
        migrations.CreateModel(
            "GateNews",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("gate", models.CharField(max_length=32)),
            ],
        ),
    ]
