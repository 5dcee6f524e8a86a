"""Slots of the sites over time."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0007_storage_prefixes")]

    operations = [
        migrations.CreateModel(
            name="SlotSample",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                ("total", models.PositiveIntegerField()),
                ("running", models.PositiveIntegerField()),
                ("pending", models.PositiveIntegerField()),
                (
                    "site",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="slot_samples",
                        to="sites_app.site",
                        db_index=False,
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="slot_sample_at")],
                "constraints": [models.UniqueConstraint(fields=("site", "at"), name="one_slot_sample")],
            },
        ),
    ]
