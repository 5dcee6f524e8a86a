"""DAG events are append-only, and Monte Carlo event ranges of one workflow never overlap."""

from django.db import migrations

CREATE = """
CREATE TRIGGER dag_event_append_only BEFORE UPDATE OR DELETE ON dags_app_dagevent
    FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change();

CREATE FUNCTION wms2_event_range_unique() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.first_event IS NULL THEN RETURN NEW; END IF;
    PERFORM 1 FROM dags_app_workflow WHERE id = NEW.workflow_id FOR UPDATE;  -- one planner at a time sees the rest
    IF EXISTS (SELECT 1 FROM dags_app_round r WHERE r.workflow_id = NEW.workflow_id AND r.id <> NEW.id
               AND int8range(r.first_event, r.last_event, '[]') && int8range(NEW.first_event, NEW.last_event, '[]'))
    THEN
        RAISE EXCEPTION 'events %..% of round % are already taken by another round', NEW.first_event, NEW.last_event,
            NEW.number USING ERRCODE = 'exclusion_violation';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER round_event_range_unique BEFORE INSERT OR UPDATE OF first_event, last_event ON dags_app_round
    FOR EACH ROW EXECUTE FUNCTION wms2_event_range_unique();
"""
DROP = """
DROP TRIGGER round_event_range_unique ON dags_app_round;
DROP FUNCTION wms2_event_range_unique();
DROP TRIGGER dag_event_append_only ON dags_app_dagevent;
"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0001_initial"), ("wms2_project", "0002_append_only")]
    operations = [migrations.RunSQL(CREATE, DROP)]
