"""Datasets that jobs read besides their input, as DBS and Rucio had them."""

from django.db import migrations, models

import wms2_project.fields


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0024_quarantine")]

    operations = [
        migrations.CreateModel(
            name="SecondaryDataset",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=500,
                        primary_key=True,
                        serialize=False,
                        validators=[wms2_project.fields.LegalName("dataset")],
                    ),
                ),
                ("lfns", models.JSONField(default=list)),
                ("missing", models.JSONField(blank=True, default=list)),
                ("places", models.JSONField(default=list)),
                ("files", models.PositiveIntegerField(default=0)),
                ("resolved_at", models.DateTimeField()),
                ("located_at", models.DateTimeField()),
            ],
        ),
    ]
