"""A dataset becomes VALID as a whole, and remembers when."""

from django.db import migrations, models
from django.db.models import Max, OuterRef, Subquery


def note_announced(apps, schema_editor):
    """Until now the first announced block made its dataset VALID."""
    blocks = apps.get_model("outputs_app", "OutputBlock").objects.filter(
        dataset=OuterRef("pk"), announced_at__isnull=False
    )
    latest = blocks.order_by().values("dataset").annotate(at=Max("announced_at")).values("at")
    datasets = apps.get_model("outputs_app", "OutputDataset").objects
    datasets.exclude(status="invalidated").update(announced_at=Subquery(latest))


class Migration(migrations.Migration):
    dependencies = [
        ("outputs_app", "0005_compared_blocks"),
    ]

    operations = [
        migrations.AddField(
            model_name="outputdataset",
            name="announced_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.RunPython(note_announced, migrations.RunPython.noop),
    ]
