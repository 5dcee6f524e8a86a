"""Add the time of a block's last agreement with DBS and Rucio."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outputs_app", "0004_tape_rules_and_lumi_events"),
    ]

    operations = [
        migrations.AddField(
            model_name="outputblock",
            name="compared_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
