"""Add a trigger function for append-only tables."""

from django.db import migrations

CREATE = """
CREATE FUNCTION wms2_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0001_initial")]
    operations = [migrations.RunSQL(CREATE, "DROP FUNCTION wms2_refuse_change()")]
