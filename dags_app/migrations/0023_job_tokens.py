"""What is kept of the tokens of jobs: when each ends and why it could not be renewed."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0020_drop_unused_columns")]

    operations = [
        migrations.CreateModel(
            "JobToken",
            fields=[
                (
                    "workflow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="job_token",
                        serialize=False,
                        to="dags_app.workflow",
                    ),
                ),
                ("scope", models.TextField(blank=True, default="")),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("lifetime_sec", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True, default="")),
                ("remedy", models.TextField(blank=True, default="")),
                ("failing_since", models.DateTimeField(blank=True, null=True)),
                ("updated_at", models.DateTimeField(auto_now=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("error", ""), ("failing_since__isnull", False), _connector="XOR"),
                        name="job_token_failure_has_a_start",
                    )
                ]
            },
        ),
    ]
