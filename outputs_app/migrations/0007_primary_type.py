"""Add the data type of the input, as in DBS."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outputs_app", "0006_announced_datasets"),
    ]

    operations = [
        migrations.AddField(
            model_name="outputdataset",
            name="primary_type",
            field=models.CharField(blank=True, default="", max_length=32),
        ),
    ]
