"""Add indexes for urgent blocks, and for lists, newest first."""

from django.db import migrations, models

REQUEST = ["invalidating", "source_protected", "source_released", "transferred"]


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0008_rule_copies")]

    operations = [
        migrations.AddIndex(
            "outputblock",
            models.Index(
                fields=["next_check_at"],
                name="output_block_protect",
                condition=models.Q(status__in=["dbs_registered", "pending"]),
            ),
        ),
        migrations.AddIndex(
            "outputblock",
            models.Index(
                fields=["next_check_at"],
                name="output_block_request",
                condition=models.Q(status__in=REQUEST),
            ),
        ),
        migrations.AddIndex(
            "outputblock", models.Index(fields=["-created_at", "-id"], name="output_block_newest")
        ),
        migrations.AddIndex(
            "outputdataset", models.Index(fields=["-created_at", "-id"], name="output_dataset_newest")
        ),
    ]
