"""At release an operator says what one event takes, where the estimate let every job be stopped."""

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
