"""A block remembers when it was last seen to be what DBS and Rucio have."""

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
