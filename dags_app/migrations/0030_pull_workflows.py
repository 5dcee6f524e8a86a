"""Parameters of pull workflows, and a number of every workflow."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dags_app', '0029_group_nodes'),
    ]

    operations = [
        migrations.RunSQL('CREATE SEQUENCE dags_app_workflow_number', 'DROP SEQUENCE dags_app_workflow_number'),
        migrations.RemoveConstraint(
            model_name='workflow',
            name='workflow_has_input_or_events',
        ),
        migrations.AddField(
            model_name='workflow',
            name='follow_input_until',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='workflow',
            name='input_from',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='consumers', to='dags_app.workflow'),
        ),
        migrations.AddField(
            model_name='workflow',
            name='max_distance',
            field=models.PositiveSmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='workflow',
            name='number',
            field=models.BigIntegerField(db_default=models.Func(models.Value('dags_app_workflow_number'), function='nextval'), editable=False, unique=True),
        ),
        migrations.AddField(
            model_name='workflow',
            name='pull_jobs',
            field=models.PositiveIntegerField(default=100),
        ),
        migrations.AddConstraint(
            model_name='workflow',
            constraint=models.CheckConstraint(condition=models.Q(('input_dataset__isnull', False), ('total_events__isnull', False), ('input_from__isnull', False), _connector='OR'), name='workflow_has_input_or_events'),
        ),
    ]
