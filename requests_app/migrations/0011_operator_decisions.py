"""Move an operator's changes at release to the workflow, with the other decisions."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("requests_app", "0010_admission"), ("dags_app", "0012_operator_decisions")]

    operations = [
        migrations.RunSQL(
            "UPDATE dags_app_workflow AS w"
            " SET chosen_hold_threshold = (r.overrides ->> 'error_hold_threshold')::float"
            " FROM requests_app_request AS r"
            " WHERE r.workflow_id = w.id AND r.overrides ? 'error_hold_threshold'",
            reverse_sql="UPDATE requests_app_request AS r"
            " SET overrides = jsonb_build_object('error_hold_threshold', w.chosen_hold_threshold)"
            " FROM dags_app_workflow AS w"
            " WHERE r.workflow_id = w.id AND w.chosen_hold_threshold IS NOT NULL",
        ),
        migrations.RemoveField("request", "overrides"),
    ]
