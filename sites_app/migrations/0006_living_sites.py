"""Add the state in CRIC, author and reason of the status, the time of measured slots, and sources."""

from django.db import migrations, models

from sites_app.states import CricState
from wms2_project.fields import enum_field, one_of


class Migration(migrations.Migration):
    dependencies = [("sites_app", "0005_drop_unused_columns")]

    operations = [
        migrations.AddField("site", "status_by", models.CharField(blank=True, default="", max_length=250)),
        migrations.AddField("site", "status_reason", models.TextField(blank=True, default="")),
        migrations.AddField("site", "slots_measured_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("site", "cric_state", enum_field(CricState, default="active")),
        migrations.AddConstraint(
            "site", one_of(CricState, field="cric_state", name="site_cric_state")
        ),
        migrations.CreateModel(
            "SiteSource",
            [
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("answered_at", models.DateTimeField(blank=True, null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True, default="")),
            ],
        ),
    ]
