"""Merged files are read on the storage before their block is registered: a status, and what was found."""

from django.db import migrations, models

STATUSES = [
    "pending", "checked", "dbs_registered", "source_protected", "transfers_requested", "transferring",
    "transferred", "source_released", "announced", "invalidating", "invalidated", "failed",
]  # fmt: skip
MOVING = sorted(set(STATUSES) - {"announced", "failed", "invalidated"})


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0010_dataset_claims")]

    operations = [
        migrations.RemoveConstraint("outputblock", "output_block_status"),
        migrations.RemoveIndex("outputblock", "output_block_due"),
        migrations.RemoveIndex("outputblock", "output_block_protect"),
        migrations.AddField("outputfile", "checked_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("outputfile", "checked_content", models.BooleanField(default=False)),
        migrations.AddField("outputfile", "check_problem", models.TextField(blank=True, default="")),
        migrations.AlterField(
            "outputblock",
            "status",
            models.CharField(
                choices=[(status, status.replace("_", " ")) for status in STATUSES],
                default="pending",
                max_length=32,
            ),
        ),
        migrations.AddIndex(
            "outputblock",
            models.Index(
                condition=models.Q(("status__in", MOVING)), fields=["next_check_at"], name="output_block_due"
            ),
        ),
        migrations.AddIndex(
            "outputblock",
            models.Index(
                condition=models.Q(("status__in", ["checked", "dbs_registered", "pending"])),
                fields=["next_check_at"],
                name="output_block_protect",
            ),
        ),
        migrations.AddConstraint(
            "outputblock",
            models.CheckConstraint(
                condition=models.Q(("status__in", sorted(STATUSES))), name="output_block_status"
            ),
        ),
    ]
