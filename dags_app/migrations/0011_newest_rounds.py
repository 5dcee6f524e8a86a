"""Add an index for the list of rounds, newest first."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0010_input_sums")]

    operations = [
        migrations.AddIndex("round", models.Index(fields=["-created_at", "-id"], name="round_newest"))
    ]
