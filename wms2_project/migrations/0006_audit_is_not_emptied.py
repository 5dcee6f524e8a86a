"""Refuse TRUNCATE of the audit, which fires no row trigger."""

from django.db import migrations

TABLE = "wms2_project_auditevent"


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0005_audit_chain")]

    operations = [
        migrations.RunSQL(
            f"CREATE TRIGGER audit_event_kept BEFORE TRUNCATE ON {TABLE}"
            " FOR EACH STATEMENT EXECUTE FUNCTION wms2_refuse_change()",
            f"DROP TRIGGER audit_event_kept ON {TABLE}",
        )
    ]
