"""Record which audit rows are in files, and permit to delete those after a month."""

from django.db import migrations, models

BODY = """
CREATE OR REPLACE FUNCTION wms2_seal_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.number IS NULL AND NEW.number IS NOT NULL
       AND to_jsonb(NEW) - 'number' - 'seal' = to_jsonb(OLD) - 'number' - 'seal' THEN
        RETURN NEW;
    END IF;
    {dropped}
    RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""
DROPPED = """
    IF TG_OP = 'DELETE' AND OLD.at < now() - interval '30 days'
       AND OLD.number <= (SELECT dropped FROM wms2_project_audithead WHERE id = 1) THEN
        RETURN OLD;
    END IF;
"""


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0009_audit_nonce")]

    operations = [
        migrations.AddField("audithead", "dropped", models.PositiveBigIntegerField(default=0, db_default=0)),
        migrations.AddField(
            "audithead",
            "dropped_seal",
            models.CharField(blank=True, default="", db_default="", max_length=64),
        ),
        migrations.AddField("audithead", "dropped_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "audithead",
            "dropped_mark",
            models.CharField(blank=True, default="", db_default="", max_length=64),
        ),
        migrations.RunSQL(BODY.format(dropped=DROPPED), BODY.format(dropped="")),
    ]
