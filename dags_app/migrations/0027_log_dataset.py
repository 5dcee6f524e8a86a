"""The dataset of a workflow's log files."""

from django.db import migrations, models

import wms2_project.fields


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0026_further_inputs")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="log_dataset",
            field=models.CharField(
                blank=True, max_length=500, null=True, validators=[wms2_project.fields.LegalName("dataset")]
            ),
        ),
    ]
