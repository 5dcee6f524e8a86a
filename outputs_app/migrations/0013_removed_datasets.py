"""Datasets whose content is no longer needed."""

from django.db import migrations, models

STATUSES = ["active", "superseded", "invalidated", "removed", "released"]


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0012_rucio_only")]

    operations = [
        migrations.RemoveConstraint("outputdataset", "output_dataset_status"),
        migrations.AlterField(
            "outputdataset",
            "status",
            models.CharField(
                choices=[(status, status) for status in STATUSES], default="active", max_length=32
            ),
        ),
        migrations.AddConstraint(
            "outputdataset",
            models.CheckConstraint(
                condition=models.Q(("status__in", sorted(STATUSES))), name="output_dataset_status"
            ),
        ),
    ]
