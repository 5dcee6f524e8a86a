"""Add the number of DAGMans that a schedd allows and runs, as last counted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0014_nodes_and_gaps")]

    operations = [
        migrations.AddField("schedd", "dagmans_allowed", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddField("schedd", "dagmans_running", models.PositiveIntegerField(default=0)),
        migrations.AddField("schedd", "counted_at", models.DateTimeField(blank=True, null=True)),
    ]
