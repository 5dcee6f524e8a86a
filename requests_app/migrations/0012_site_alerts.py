"""An alert may be about a site."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0011_operator_decisions")]

    operations = [
        migrations.AddField("alert", "site", models.CharField(blank=True, default="", max_length=100)),
        migrations.AlterField(
            "alert",
            "request",
            models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="alerts",
                to="requests_app.request",
            ),
        ),
        migrations.AddConstraint(
            "alert",
            models.UniqueConstraint(
                fields=["site", "kind"],
                condition=Q(closed_at__isnull=True, request__isnull=True),
                name="one_open_alert_per_site",
            ),
        ),
        migrations.AddConstraint(
            "alert",
            models.CheckConstraint(
                condition=Q(request__isnull=False) ^ ~Q(site=""), name="alert_about_a_request_or_a_site"
            ),
        ),
    ]
