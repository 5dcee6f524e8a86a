"""Make the status history append-only."""

from django.db import migrations

CREATE = """
CREATE TRIGGER status_transition_append_only BEFORE UPDATE OR DELETE ON requests_app_statustransition
    FOR EACH ROW EXECUTE FUNCTION wms2_refuse_change();
"""


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0001_initial"), ("wms2_project", "0002_append_only")]
    operations = [
        migrations.RunSQL(CREATE, "DROP TRIGGER status_transition_append_only ON requests_app_statustransition")
    ]
