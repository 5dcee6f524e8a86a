"""Progress samples, for burn-down charts and the state of a request at an earlier time."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("requests_app", "0018_drop_unused_columns"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProgressSample",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("thinning", models.PositiveSmallIntegerField(default=0)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("new", "new"),
                            ("submitted", "submitted"),
                            ("queued", "queued"),
                            ("pilot_running", "pilot running"),
                            ("planning", "planning"),
                            ("active", "active"),
                            ("partial", "partial"),
                            ("stopping", "stopping"),
                            ("resubmitting", "resubmitting"),
                            ("held", "held"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("aborted", "aborted"),
                        ],
                        max_length=32,
                    ),
                ),
                ("gate", models.CharField(blank=True, default="", max_length=32)),
                ("reason", models.TextField(blank=True, default="")),
                ("events_total", models.PositiveBigIntegerField(default=0)),
                ("events_done", models.PositiveBigIntegerField(default=0)),
                ("events_running", models.PositiveBigIntegerField(default=0)),
                ("events_excluded", models.PositiveBigIntegerField(default=0)),
                ("groups_total", models.PositiveIntegerField(default=0)),
                ("groups_done", models.PositiveIntegerField(default=0)),
                ("jobs_running", models.PositiveIntegerField(default=0)),
                ("jobs_idle", models.PositiveIntegerField(default=0)),
                ("jobs_held", models.PositiveIntegerField(default=0)),
                ("estimated_completion", models.DateTimeField(blank=True, null=True)),
                ("earliest", models.DateTimeField(blank=True, null=True)),
                ("latest", models.DateTimeField(blank=True, null=True)),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="samples",
                        to="requests_app.request",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["thinning", "at"], name="progress_sample_by_age")],
                "constraints": [
                    models.UniqueConstraint(fields=("request", "at"), name="progress_sample_once"),
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "status__in",
                                [
                                    "aborted",
                                    "active",
                                    "completed",
                                    "failed",
                                    "held",
                                    "new",
                                    "partial",
                                    "pilot_running",
                                    "planning",
                                    "queued",
                                    "resubmitting",
                                    "stopping",
                                    "submitted",
                                ],
                            )
                        ),
                        name="progress_sample_status",
                    ),
                ],
            },
        ),
    ]
