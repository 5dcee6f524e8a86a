"""Add the sites that the landings of a DAG use, to be compared with those usable now."""

import django.contrib.postgres.fields
from django.db import migrations, models

import wms2_project.fields


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0017_first_versions")]

    operations = [
        migrations.AddField(
            "dag",
            "applied_sites",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    max_length=500, validators=[wms2_project.fields.LegalName("site")]
                ),
                blank=True,
                null=True,
                size=None,
            ),
        ),
    ]
