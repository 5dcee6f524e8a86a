"""Copies of files proved bad, for all workflows; those the wrapper found corrupt lately are taken over.

And since when the landings of a running DAG do not know of changed replicas.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import wms2_project.fields

TAKE_OVER = """
INSERT INTO dags_app_quarantinedreplica
       (lfn, site, storages, exit_code, proof, node, created_at, proved_at, expires_at, ended_by, end_reason,
        declared_as, declare_error, dag_id, workflow_id)
SELECT DISTINCT ON (b.lfn, b.site)
       b.lfn, b.site, '{}', b.exit_code, 'found corrupt; recorded before proofs were kept', '', b.created_at,
       b.created_at, b.created_at + interval '30 days', '', '', '', '', d.id, b.workflow_id
  FROM dags_app_badreplica b
  JOIN dags_app_dag d ON d.round_id = b.round_id
 WHERE b.source <> 'payload' AND b.exit_code IN (8016, 8021, 8022, 8034)
   AND b.created_at > now() - interval '30 days'
 ORDER BY b.lfn, b.site, b.created_at DESC, d.created_at DESC
"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0023_job_tokens")]

    operations = [
        migrations.AddField(
            "dag", "landings_stale_since", models.DateTimeField(blank=True, null=True)
        ),
        migrations.CreateModel(
            name="QuarantinedReplica",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "lfn",
                    models.CharField(
                        max_length=500, validators=[wms2_project.fields.LegalName("logical file name")]
                    ),
                ),
                ("site", models.CharField(max_length=100)),
                (
                    "storages",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            max_length=500, validators=[wms2_project.fields.LegalName("storage name")]
                        ),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("exit_code", models.IntegerField()),
                ("proof", models.TextField()),
                ("node", models.CharField(blank=True, default="", max_length=100)),
                ("created_at", models.DateTimeField()),
                ("proved_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("ended_by", models.CharField(blank=True, default="", max_length=250)),
                ("end_reason", models.TextField(blank=True, default="")),
                ("declare_at", models.DateTimeField(blank=True, null=True)),
                (
                    "declared_as",
                    models.CharField(
                        blank=True,
                        choices=[("", "not declared"), ("suspicious", "suspicious"), ("bad", "bad")],
                        default="",
                        max_length=32,
                    ),
                ),
                ("declared_at", models.DateTimeField(blank=True, null=True)),
                ("declare_error", models.TextField(blank=True, default="")),
                (
                    "dag",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quarantined",
                        to="dags_app.dag",
                    ),
                ),
                (
                    "workflow",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="quarantined",
                        to="dags_app.workflow",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-created_at", "-id"], name="quarantine_newest"),
                    models.Index(
                        condition=models.Q(("declare_at__isnull", False)),
                        fields=["declare_at"],
                        name="quarantine_undeclared",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at__isnull", True)),
                        fields=("lfn", "site"),
                        name="quarantined_once",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("expires_at__gt", models.F("created_at"))),
                        name="quarantine_ends_after_it_begins",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("ended_at__isnull", True),
                            models.Q(("ended_by", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="quarantine_end_names_who",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("declared_as__in", ["", "suspicious", "bad"])),
                        name="quarantine_declared_as",
                    ),
                ],
            },
        ),
        migrations.RunSQL(TAKE_OVER, migrations.RunSQL.noop),
    ]
