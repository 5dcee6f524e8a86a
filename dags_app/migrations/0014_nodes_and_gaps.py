"""Nodes done and failed of groups that are not done, and the events of excluded files."""

from django.db import migrations, models

# Until now only the reason distinguished a file beyond an early stop from one that could not be read.
BEYOND = """
UPDATE dags_app_inputfile SET wanted = '[]'
 WHERE state = 'excluded' AND wanted IS NULL AND excluded_reason ~ '^beyond total_[a-z]+$'"""
GAPS = """
UPDATE dags_app_workflow w
   SET input_events = w.input_events + f.events, input_events_excluded = f.events
  FROM (SELECT workflow_id, sum(events) AS events FROM dags_app_inputfile
         WHERE state = 'excluded' AND wanted IS DISTINCT FROM '[]'::jsonb GROUP BY workflow_id) f
 WHERE f.workflow_id = w.id"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0013_failure_causes")]

    operations = [
        migrations.AddField("mergegroup", "nodes_done", models.PositiveIntegerField(default=0)),
        migrations.AddField("mergegroup", "nodes_failed", models.PositiveIntegerField(default=0)),
        migrations.AddField("workflow", "input_events_excluded", models.PositiveBigIntegerField(default=0)),
        migrations.RunSQL(BEYOND, migrations.RunSQL.noop),
        migrations.RunSQL(GAPS, migrations.RunSQL.noop),
    ]
