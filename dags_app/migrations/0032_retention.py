"""Add folded ledgers, and permit to delete DAG events after a month."""

import django.db.models.deletion
from django.db import migrations, models

KEEP_RECENT = """
CREATE FUNCTION wms2_keep_recent() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.at < now() - interval '30 days' THEN RETURN OLD; END IF;
    RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER dag_event_kept BEFORE DELETE ON dags_app_dagevent
    FOR EACH ROW EXECUTE FUNCTION wms2_keep_recent();
DROP TRIGGER dag_event_append_only ON dags_app_dagevent;
CREATE TRIGGER dag_event_append_only BEFORE UPDATE ON dags_app_dagevent
    FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change();
"""
KEEP_ALL = """
DROP TRIGGER dag_event_append_only ON dags_app_dagevent;
CREATE TRIGGER dag_event_append_only BEFORE UPDATE OR DELETE ON dags_app_dagevent
    FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change();
DROP TRIGGER dag_event_kept ON dags_app_dagevent;
DROP FUNCTION wms2_keep_recent();
"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0031_groups_by_time")]

    operations = [
        migrations.CreateModel(
            name="FoldedInput",
            fields=[
                (
                    "workflow",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="folded_input",
                        serialize=False,
                        to="dags_app.workflow",
                    ),
                ),
                ("ledger", models.JSONField()),
                ("folded_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.RunSQL(KEEP_RECENT, KEEP_ALL),
    ]
