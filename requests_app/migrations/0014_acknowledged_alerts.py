"""Add the acknowledgement of alerts, and indexes by time, kind and state."""

from django.db import migrations, models
from django.db.models import Q

NEWEST = ["-created_at", "-id"]
WHO = Q(acknowledged_at__isnull=True) | ~Q(acknowledged_by="")


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0013_priority_order")]

    operations = [
        migrations.AddField("alert", "acknowledged_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "alert", "acknowledged_by", models.CharField(blank=True, default="", max_length=250)
        ),
        migrations.AddField("alert", "acknowledge_reason", models.TextField(blank=True, default="")),
        migrations.AddIndex("alert", models.Index(fields=NEWEST, name="alert_by_time")),
        migrations.AddIndex("alert", models.Index(fields=["kind", *NEWEST], name="alert_by_kind")),
        migrations.AddIndex(
            "alert", models.Index(fields=NEWEST, name="alert_open", condition=Q(closed_at__isnull=True))
        ),
        migrations.AddIndex(
            "alert",
            models.Index(
                fields=["site", *NEWEST], name="alert_by_site", condition=Q(request__isnull=True)
            ),
        ),
        migrations.AddConstraint(
            "alert", models.CheckConstraint(condition=WHO, name="acknowledgement_names_who")
        ),
    ]
