"""Mark operators' decisions about sites; older decisions of any person count as such."""

from django.db import migrations, models


def mark_existing(apps, schema_editor):
    apps.get_model("sites_app", "Site").objects.exclude(status="enabled").update(set_by_operator=True)
    bans = apps.get_model("sites_app", "SiteBan").objects
    bans.exclude(created_by__startswith="system:").update(by_operator=True)


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0003_storage_asked_at")]

    operations = [
        migrations.AddField("site", "set_by_operator", models.BooleanField(default=False)),
        migrations.AddField("siteban", "by_operator", models.BooleanField(default=False)),
        migrations.RunPython(mark_existing, migrations.RunPython.noop),
    ]
