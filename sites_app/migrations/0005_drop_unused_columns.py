"""Drop what was never read: a site's own schedd and collector."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0004_by_operator")]

    operations = [
        migrations.RemoveField("site", "schedd_name"),
        migrations.RemoveField("site", "collector_host"),
    ]
