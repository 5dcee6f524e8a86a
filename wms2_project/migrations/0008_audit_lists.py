"""Add indexes of the audit by time, actor, action and target."""

from django.db import migrations, models

NEWEST = ["-at", "-id"]
INDEXES = {
    "audit_by_time": [],
    "audit_by_actor": ["actor"],
    "audit_by_action": ["action"],
    "audit_by_actor_and_action": ["actor", "action"],
    "audit_by_target": ["target"],
}


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0007_gate_news")]

    operations = [
        *(
            migrations.AddIndex("auditevent", models.Index(fields=[*columns, *NEWEST], name=name))
            for name, columns in INDEXES.items()
        ),
        migrations.AlterField("auditevent", "target", models.CharField(max_length=250)),
    ]
