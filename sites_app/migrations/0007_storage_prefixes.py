"""Where a site's storage is: URL prefixes from the protocols in Rucio."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0006_living_sites")]

    operations = [
        migrations.AddField("site", "storage_prefixes", models.JSONField(blank=True, default=list)),
    ]
