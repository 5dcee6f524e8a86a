"""Add the decided hold threshold, and the operator who excluded a file."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dags_app", "0011_newest_rounds")]

    operations = [
        migrations.AddField("workflow", "chosen_hold_threshold", models.FloatField(blank=True, null=True)),
        migrations.AddField(
            "inputfile", "excluded_by", models.CharField(blank=True, default="", max_length=250)
        ),
        migrations.RunSQL(
            "UPDATE dags_app_inputfile"
            " SET excluded_by = substring(excluded_reason from '^excluded by ([^ ]+:[^:]+):')"
            " WHERE state = 'excluded' AND excluded_reason ~ '^excluded by [^ ]+:[^:]+:'",
            reverse_sql=migrations.RunSQL.noop,
        ),
    ]
