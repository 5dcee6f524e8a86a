"""Further datasets that a workflow processes together with its first one."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models

import wms2_project.fields


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0025_secondary_datasets")]

    operations = [
        migrations.AddField(
            model_name="workflow",
            name="further_input_datasets",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    max_length=500, validators=[wms2_project.fields.LegalName("dataset")]
                ),
                blank=True,
                default=list,
                size=None,
            ),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=django.contrib.postgres.indexes.GinIndex(
                fields=["further_input_datasets"], name="workflow_by_further_input"
            ),
        ),
    ]
