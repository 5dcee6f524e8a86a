"""Add the nonce of audit rows, so that none can be copied, and the end of the chain."""

from django.db import migrations, models

import wms2_project.models
from wms2_project.access.audit import head_mark, mark_of

TABLE = "wms2_project_auditevent"
OPEN = f"DROP TRIGGER audit_event_append_only ON {TABLE}"
CLOSE = f"""
CREATE TRIGGER audit_event_append_only BEFORE UPDATE OR DELETE ON {TABLE}
FOR EACH ROW EXECUTE FUNCTION wms2_seal_only()"""


def record_head(apps, schema_editor):
    """Sealed rows stay as they are; a row that waits for its seal gets the nonce it is sealed with."""
    rows = apps.get_model("wms2_project", "AuditEvent").objects
    for row in rows.filter(number__isnull=True).iterator(chunk_size=2000):
        if row.mark == mark_of(row):
            row.nonce = wms2_project.models.new_nonce()
            rows.filter(pk=row.pk).update(nonce=row.nonce, mark=mark_of(row))
    if last := rows.filter(number__isnull=False).order_by("-number").first():
        mark = head_mark(last.number, last.seal)
        head = apps.get_model("wms2_project", "AuditHead").objects
        head.create(pk=1, number=last.number, seal=last.seal, mark=mark)


class Migration(migrations.Migration):
    dependencies = [("wms2_project", "0008_audit_lists")]

    operations = [
        migrations.RunSQL(OPEN, CLOSE),
        migrations.CreateModel(
            name="AuditHead",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("number", models.PositiveBigIntegerField()),
                ("seal", models.CharField(max_length=64)),
                ("mark", models.CharField(max_length=64)),
                ("shipped", models.PositiveBigIntegerField(default=0)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="audit_has_one_head")
                ]
            },
        ),
        migrations.AddField("auditevent", "nonce", models.CharField(blank=True, default="", max_length=32)),
        migrations.RunPython(record_head, migrations.RunPython.noop),
        migrations.AlterField(
            "auditevent",
            "nonce",
            models.CharField(blank=True, default=wms2_project.models.new_nonce, max_length=32),
        ),
        migrations.AddConstraint(
            "auditevent",
            models.UniqueConstraint(
                condition=models.Q(("nonce", ""), _negated=True), fields=("nonce",), name="audit_nonce_once"
            ),
        ),
        migrations.RunSQL(CLOSE, OPEN),
    ]
