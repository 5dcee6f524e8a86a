"""Add the number of copies of a rule."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("outputs_app", "0007_primary_type"),
    ]

    operations = [
        migrations.AddField(
            model_name="ruciorule",
            name="copies",
            field=models.PositiveSmallIntegerField(default=1),
        ),
    ]
