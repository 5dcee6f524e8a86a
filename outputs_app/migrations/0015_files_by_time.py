"""Index of files by time, for the throughput of the last hours."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outputs_app", "0014_lifetimes")]

    operations = [
        migrations.AddIndex("outputfile", models.Index(fields=["-created_at"], name="output_file_newest")),
    ]
