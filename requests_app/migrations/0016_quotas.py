"""Quotas of requestors and groups, and indexes by which their requests are counted."""

from django.db import migrations, models
from django.db.models import Q

OPEN = ~Q(status__in=["aborted", "completed", "failed"])
COMPLETE = Q(
    open_requests__isnull=False,
    submissions_per_hour__isnull=False,
    queued_jobs__isnull=False,
    storage_gb__isnull=False,
)


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0015_timeline")]

    operations = [
        migrations.CreateModel(
            "Quota",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "scope",
                    models.CharField(
                        choices=[("requestor", "requestor"), ("group", "group")], max_length=32
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("open_requests", models.PositiveIntegerField(blank=True, null=True)),
                ("submissions_per_hour", models.PositiveIntegerField(blank=True, null=True)),
                ("queued_jobs", models.PositiveIntegerField(blank=True, null=True)),
                ("storage_gb", models.PositiveBigIntegerField(blank=True, null=True)),
                ("updated_by", models.CharField(default="system:default", max_length=250)),
                ("version", models.PositiveIntegerField(default=0)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={"ordering": ["scope", "name"]},
        ),
        migrations.AddConstraint(
            "quota", models.UniqueConstraint(fields=["scope", "name"], name="quota_once")
        ),
        migrations.AddConstraint(
            "quota",
            models.CheckConstraint(condition=Q(scope__in=["group", "requestor"]), name="quota_scope"),
        ),
        migrations.AddConstraint(
            "quota",
            models.CheckConstraint(condition=~Q(name="*") | COMPLETE, name="default_quota_is_complete"),
        ),
        migrations.AddIndex(
            "request",
            models.Index(fields=["group", "-created_at"], name="request_by_group", condition=~Q(group="")),
        ),
        migrations.AddIndex(
            "request", models.Index(fields=["requestor"], name="request_open_of", condition=OPEN)
        ),
        migrations.AddIndex(
            "request",
            models.Index(fields=["group"], name="request_open_of_group", condition=OPEN & ~Q(group="")),
        ),
    ]
