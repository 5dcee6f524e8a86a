"""Keep the evidence of every hold with its status change: a release clears that of the request."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0022_retention")]
    operations = [
        migrations.AddField("statustransition", "evidence", models.JSONField(blank=True, null=True)),
    ]
