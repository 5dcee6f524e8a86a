"""Who brought a failure about: the payload, the wrapper or HTCondor. What is older may be a payload's.

And when the submit directory of a round was removed.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0018_applied_sites")]

    operations = [
        migrations.AddField("failurecluster", "source", models.CharField(default="payload", max_length=16)),
        migrations.AddField("badreplica", "source", models.CharField(default="payload", max_length=16)),
        migrations.AddField("round", "directory_removed_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddIndex(
            "round",
            models.Index(
                condition=models.Q(("directory_removed_at__isnull", True)),
                fields=["created_at"],
                name="round_on_disk",
            ),
        ),
    ]
