"""The sums of a workflow's input files stand on the workflow, filled in for those that exist."""

from django.db import migrations, models

FILL = """
UPDATE dags_app_workflow AS w SET input_events = s.total, input_events_done = s.done
  FROM (SELECT f.workflow_id, sum(f.events) AS total,
               coalesce(sum(f.events) FILTER (WHERE f.state = 'processed' AND r.status <> 'planned'), 0) AS done
          FROM dags_app_inputfile f LEFT JOIN dags_app_round r ON r.id = f.round_id
         WHERE f.state <> 'excluded' GROUP BY f.workflow_id) AS s
 WHERE s.workflow_id = w.id"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0009_fenced_schedds")]

    operations = [
        migrations.AddField("workflow", "input_events", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("workflow", "input_events_done", models.PositiveBigIntegerField(default=0)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
