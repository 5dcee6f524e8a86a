"""Weights of the rank, and the policy for full storage."""

from django.db import migrations, models

POLICIES = ["close", "hold"]
WEIGHTS = ["ageing_weight", "priority_weight", "retry_weight"]


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0019_progress_samples")]

    operations = [
        migrations.AddField(
            "admissionconfig",
            "storage_policy",
            models.CharField(choices=[(one, one) for one in POLICIES], default="close", max_length=32),
        ),
        migrations.AddField("admissionconfig", "priority_weight", models.FloatField(default=1.0)),
        migrations.AddField("admissionconfig", "ageing_weight", models.FloatField(default=0.0)),
        migrations.AddField("admissionconfig", "retry_weight", models.FloatField(default=0.0)),
        migrations.AddConstraint(
            "admissionconfig",
            models.CheckConstraint(
                condition=models.Q(("storage_policy__in", POLICIES)), name="admission_storage_policy"
            ),
        ),
        migrations.AddConstraint(
            "admissionconfig",
            models.CheckConstraint(
                condition=models.Q(*[(f"{one}__range", (0, 1e6)) for one in WEIGHTS]),
                name="admission_rank_weights",
            ),
        ),
    ]
