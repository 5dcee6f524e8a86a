"""Add indexes for the list of DAGs, newest first, and for requests by their input."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0006_failures")]

    operations = [
        migrations.AddIndex(
            model_name="dag",
            index=models.Index(fields=["-created_at", "-id"], name="dag_newest"),
        ),
        migrations.AddIndex(
            model_name="workflow",
            index=models.Index(fields=["input_dataset"], name="workflow_by_input"),
        ),
    ]
