"""What a workflow has learned from finished requests of its campaign."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0032_retention")]

    operations = [migrations.AddField("workflow", "learned", models.JSONField(null=True, blank=True))]
