"""Add the mark and seal of audit rows; a row can be sealed once."""

import django.utils.timezone
from django.db import migrations, models

from wms2_project.access.audit import mark_of

TABLE = "wms2_project_auditevent"
OPEN = f"DROP TRIGGER audit_event_append_only ON {TABLE}"
CLOSE = f"""
CREATE TRIGGER audit_event_append_only BEFORE UPDATE OR DELETE ON {TABLE}
FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change()"""
SEAL_ONLY = f"""
CREATE FUNCTION wms2_seal_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.number IS NULL AND NEW.number IS NOT NULL
       AND to_jsonb(NEW) - 'number' - 'seal' = to_jsonb(OLD) - 'number' - 'seal' THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER audit_event_append_only BEFORE UPDATE OR DELETE ON {TABLE}
FOR EACH ROW EXECUTE FUNCTION wms2_seal_only();"""
REOPEN = f"DROP TRIGGER audit_event_append_only ON {TABLE}; DROP FUNCTION wms2_seal_only()"


def mark_rows(apps, schema_editor):
    rows = apps.get_model("wms2_project", "AuditEvent").objects
    for row in rows.iterator(chunk_size=2000):
        rows.filter(pk=row.pk).update(mark=mark_of(row))


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0004_identity")]

    operations = [
        migrations.RunSQL(OPEN, CLOSE),
        migrations.AlterField("auditevent", "at", models.DateTimeField(default=django.utils.timezone.now)),
        migrations.AddField(
            "auditevent", "traceparent", models.CharField(blank=True, default="", max_length=55)
        ),
        migrations.AddField("auditevent", "mark", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("auditevent", "number", models.PositiveBigIntegerField(null=True, unique=True)),
        migrations.AddField("auditevent", "seal", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddIndex(
            "auditevent",
            models.Index(condition=models.Q(("number__isnull", True)), fields=["id"], name="audit_unsealed"),
        ),
        migrations.RunPython(mark_rows, migrations.RunPython.noop),
        migrations.RunSQL(SEAL_ONLY, REOPEN),
    ]
