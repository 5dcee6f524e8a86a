"""Datasets that are registered in Rucio only, such as log files."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0011_output_check")]

    operations = [
        migrations.AddField(
            model_name="outputdataset", name="in_dbs", field=models.BooleanField(default=True)
        ),
    ]
