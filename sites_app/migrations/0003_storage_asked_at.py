"""Add the time of the last query of a site's storage usage."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0002_one_ban")]

    operations = [
        migrations.AddField("site", "storage_asked_at", models.DateTimeField(blank=True, null=True))
    ]
