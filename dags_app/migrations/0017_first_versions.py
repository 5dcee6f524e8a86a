"""Add the workflow of the first version to workflows of restarted requests."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0016_input_waits")]

    operations = [
        migrations.AddField(
            "workflow",
            "first_version",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="dags_app.workflow",
            ),
        ),
    ]
