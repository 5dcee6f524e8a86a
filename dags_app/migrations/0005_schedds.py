import dags_app.states
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dags_app', '0004_partial_credit'),
    ]

    operations = [
        migrations.AddField(
            model_name='dag',
            name='applied_version',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.CreateModel(
            name='Schedd',
            fields=[
                ('name', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('enabled', 'enabled'), ('draining', 'draining')], default=dags_app.states.ScheddStatus['ENABLED'], max_length=32)),
                ('reason', models.TextField(blank=True, default='')),
                ('drain_deadline', models.DateTimeField(blank=True, null=True)),
                ('asked_at', models.DateTimeField(blank=True, null=True)),
                ('answered_at', models.DateTimeField(blank=True, null=True)),
                ('silent_since', models.DateTimeField(blank=True, null=True)),
                ('version', models.PositiveIntegerField(default=0)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['draining', 'enabled'])), name='schedd_status')],
            },
        ),
    ]
