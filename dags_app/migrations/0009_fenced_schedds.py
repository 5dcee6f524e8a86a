"""Add the status of fenced schedds."""

import dags_app.states
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dags_app", "0008_chosen_time"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="schedd",
            name="schedd_status",
        ),
        migrations.AlterField(
            model_name="schedd",
            name="status",
            field=models.CharField(
                choices=[("enabled", "enabled"), ("draining", "draining"), ("fenced", "fenced")],
                default=dags_app.states.ScheddStatus["ENABLED"],
                max_length=32,
            ),
        ),
        migrations.AddConstraint(
            model_name="schedd",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", ["draining", "enabled", "fenced"])), name="schedd_status"
            ),
        ),
    ]
