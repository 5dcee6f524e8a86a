"""Leave out a column that was never written. Older processes still read it; a later version drops it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0008_slot_samples")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.AlterField(
                    "site", "storage_path", models.TextField(blank=True, default="", db_default="")
                )
            ],
            state_operations=[migrations.RemoveField("site", "storage_path")],
        )
    ]
