"""Add the time per event that an operator sets at release."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0007_lists")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="chosen_time_per_event_sec",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
