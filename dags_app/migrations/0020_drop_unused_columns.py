"""Drop the event range of a group: it was never written. A round has one."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0019_sources_and_directories")]

    operations = [
        migrations.RemoveField("mergegroup", "first_event"),
        migrations.RemoveField("mergegroup", "last_event"),
    ]
