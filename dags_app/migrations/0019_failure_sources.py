"""Who brought a failure about: the payload, the wrapper or HTCondor. What is older may be a payload's."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0018_applied_sites")]

    operations = [
        migrations.AddField("failurecluster", "source", models.CharField(default="payload", max_length=16)),
        migrations.AddField("badreplica", "source", models.CharField(default="payload", max_length=16)),
    ]
