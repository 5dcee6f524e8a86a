"""Rename the field `told` to `reported`. The column keeps its name: workers of the version before read it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0015_files_by_time")]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField("reqmgr2report", "told", "reported"),
                migrations.AlterField(
                    "reqmgr2report",
                    "reported",
                    models.CharField(blank=True, db_column="told", default="", max_length=32),
                ),
            ]
        )
    ]
