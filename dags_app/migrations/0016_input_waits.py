"""How far the input is read and its replicas are looked up; and which rounds still have files to remove.

Finished groups that a closed round left uncollected are discarded: they would never be collected.
"""

from django.db import migrations, models
from django.utils import timezone

DISCARD = """
UPDATE dags_app_mergegroup AS g
   SET status = 'failed', last_error = 'discarded: its outputs were not collected. ' || g.last_error
  FROM dags_app_round r
 WHERE r.id = g.round_id AND r.status = 'resolved' AND g.status = 'done'"""


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0015_schedd_room")]

    operations = [
        migrations.AddField(
            "workflow", "resolved_through", models.CharField(max_length=600, blank=True, default="")
        ),
        migrations.AddField("workflow", "input_seen", models.JSONField(null=True, blank=True)),
        migrations.AddField("workflow", "located_at", models.DateTimeField(null=True, blank=True)),
        migrations.AddField("workflow", "located_through", models.BigIntegerField(null=True, blank=True)),
        migrations.AddField("workflow", "unplaced_since", models.DateTimeField(null=True, blank=True)),
        migrations.AddField(
            "round", "sweep_at", models.DateTimeField(null=True, blank=True, default=timezone.now)
        ),
        migrations.AddIndex(
            "round",
            models.Index(
                fields=["sweep_at"], name="round_unswept", condition=models.Q(sweep_at__isnull=False)
            ),
        ),
        migrations.RunSQL(DISCARD, migrations.RunSQL.noop),
    ]
