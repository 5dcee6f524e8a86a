"""Lifetime of output datasets, for outputs that are meant to expire."""


from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('outputs_app', '0013_removed_datasets'),
    ]

    operations = [
        migrations.AddField(
            model_name='outputdataset',
            name='lifetime_days',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
    ]
