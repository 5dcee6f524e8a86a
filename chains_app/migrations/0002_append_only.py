"""Make the events of chains append-only."""

from django.db import migrations

CREATE = """
CREATE TRIGGER chain_event_append_only BEFORE UPDATE OR DELETE ON chains_app_chainevent
    FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("chains_app", "0001_initial"), ("wms2_project", "0002_append_only")]
    operations = [migrations.RunSQL(CREATE, "DROP TRIGGER chain_event_append_only ON chains_app_chainevent")]
