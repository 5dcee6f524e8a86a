"""The timeline of a request: its status changes, and what people did to it and to its DAGs."""

import django.db.models.deletion
from django.db import migrations, models

VIEW = """
CREATE VIEW requests_app_timeline AS
SELECT 't' || id AS id, request_id, 'status' AS kind, from_status, to_status, reason, actor, call_id, at,
       '{}'::jsonb AS detail
  FROM requests_app_statustransition
UNION ALL
SELECT 'a' || a.id, r.id, a.action, '', '', a.reason, a.actor, a.request_id, a.at, a.detail
  FROM wms2_project_auditevent a JOIN requests_app_request r ON r.request_name = a.target
 WHERE NOT jsonb_exists(a.detail, 'before')
UNION ALL
SELECT 'a' || a.id, r.id, a.action, '', '', a.reason, a.actor, a.request_id, a.at, a.detail
  FROM requests_app_request r JOIN dags_app_dag d ON d.workflow_id = r.workflow_id
  JOIN wms2_project_auditevent a ON a.target = d.token
UNION ALL
SELECT 'b' || b.id, r.id, 'ban', '', '', b.reason, b.created_by, '', b.created_at,
       jsonb_build_object('changes', jsonb_build_object('site', b.site_id, 'until', b.expires_at))
  FROM requests_app_request r JOIN sites_app_siteban b ON b.workflow_id = r.workflow_id
UNION ALL
SELECT 'e' || b.id, r.id, 'end of ban', '', '', b.reason, b.removed_by, '', b.removed_at,
       jsonb_build_object('changes', jsonb_build_object('site', b.site_id))
  FROM requests_app_request r JOIN sites_app_siteban b ON b.workflow_id = r.workflow_id
 WHERE b.removed_at IS NOT NULL
"""


class Migration(migrations.Migration):
    dependencies = [
        ("requests_app", "0014_acknowledged_alerts"),
        ("sites_app", "0003_storage_asked_at"),
        ("wms2_project", "0008_audit_lists"),
    ]

    operations = [
        migrations.RunSQL(VIEW, reverse_sql="DROP VIEW requests_app_timeline"),
        migrations.CreateModel(
            name="TimelineEntry",
            fields=[
                ("id", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("kind", models.CharField(max_length=50)),
                ("from_status", models.CharField(max_length=32)),
                ("to_status", models.CharField(max_length=32)),
                ("reason", models.TextField()),
                ("actor", models.CharField(max_length=250)),
                ("call_id", models.CharField(max_length=100)),
                ("at", models.DateTimeField()),
                ("detail", models.JSONField()),
                (
                    "request",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="timeline",
                        to="requests_app.request",
                    ),
                ),
            ],
            options={"db_table": "requests_app_timeline", "managed": False},
        ),
    ]
