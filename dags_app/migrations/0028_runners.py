"""Runners of pull rounds, the files lent to them and the outputs they record."""


import dags_app.states
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import uuid
import wms2_project.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dags_app', '0027_log_dataset'),
    ]

    operations = [
        migrations.CreateModel(
            name='PlaceSet',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('storages', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), default=list, size=None)),
            ],
        ),
        migrations.CreateModel(
            name='Runner',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('node', models.CharField(max_length=64)),
                ('attempt', models.PositiveIntegerField()),
                ('instance', models.UUIDField(unique=True)),
                ('htcondor_id', models.CharField(max_length=100)),
                ('site', models.CharField(max_length=500, validators=[wms2_project.fields.LegalName('site')])),
                ('slot', models.CharField(blank=True, default='', max_length=200)),
                ('seconds_left', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('running', 'running'), ('recorded', 'recorded'), ('ended', 'ended')], default=dags_app.states.RunnerState['RUNNING'], max_length=32)),
                ('outcome', models.CharField(blank=True, choices=[('processed', 'processed'), ('unprocessed', 'unprocessed'), ('late', 'late'), ('failed', 'failed'), ('lost', 'lost'), ('stopped', 'stopped')], max_length=32, null=True)),
                ('files_lent', models.PositiveIntegerField(default=0)),
                ('files_processed', models.PositiveIntegerField(default=0)),
                ('exit_code', models.IntegerField(blank=True, null=True)),
                ('message', models.TextField(blank=True, default='')),
                ('calls', models.JSONField(blank=True, default=dict)),
                ('last_call', models.UUIDField(blank=True, null=True)),
                ('last_count', models.PositiveSmallIntegerField(default=0)),
                ('last_lent', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), blank=True, default=list, size=None)),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('heartbeat_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='RunnerCount',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('site', models.CharField(max_length=500, validators=[wms2_project.fields.LegalName('site')])),
                ('outcome', models.CharField(choices=[('processed', 'processed'), ('unprocessed', 'unprocessed'), ('late', 'late'), ('failed', 'failed'), ('lost', 'lost'), ('stopped', 'stopped')], max_length=32)),
                ('runners', models.PositiveIntegerField()),
                ('files_processed', models.PositiveBigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='RunnerEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('started', 'started'), ('allocated', 'allocated'), ('reset', 'reset'), ('failed', 'failed'), ('created', 'created'), ('uploaded', 'uploaded'), ('processed', 'processed'), ('stalled', 'stalled'), ('ended', 'ended')], max_length=32)),
                ('file_ids', django.contrib.postgres.fields.ArrayField(base_field=models.BigIntegerField(), blank=True, default=list, size=None)),
                ('message', models.TextField(blank=True, default='')),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.CreateModel(
            name='RunnerOutput',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=200)),
                ('pattern', models.PositiveSmallIntegerField()),
                ('dataset_name', models.CharField(blank=True, default='', max_length=500, validators=[wms2_project.fields.LegalName('dataset')])),
                ('lfn', models.CharField(max_length=500, unique=True, validators=[wms2_project.fields.LegalName('logical file name')])),
                ('size_bytes', models.PositiveBigIntegerField()),
                ('adler32', models.CharField(max_length=8)),
                ('events', models.PositiveBigIntegerField(blank=True, null=True)),
                ('lumis', models.JSONField(blank=True, default=list)),
                ('sites', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500, validators=[wms2_project.fields.LegalName('site')]), default=list, size=None)),
                ('site', models.CharField(blank=True, default='', max_length=100)),
                ('state', models.CharField(choices=[('recorded', 'recorded'), ('confirmed', 'confirmed'), ('void', 'void'), ('removed', 'removed')], default=dags_app.states.UploadState['RECORDED'], max_length=32)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='round',
            name='round_kind',
        ),
        migrations.AddField(
            model_name='inputfile',
            name='first_event',
            field=models.PositiveBigIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='round',
            name='lending_stopped_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='round',
            name='lending_stopped_reason',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AlterField(
            model_name='round',
            name='kind',
            field=models.CharField(choices=[('pilot', 'pilot'), ('production', 'production'), ('pull', 'pull')], default=dags_app.states.RoundKind['PRODUCTION'], max_length=32),
        ),
        migrations.AddConstraint(
            model_name='round',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['pilot', 'production', 'pull'])), name='round_kind'),
        ),
        migrations.AddField(
            model_name='placeset',
            name='workflow',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='place_sets', to='dags_app.workflow'),
        ),
        migrations.AddField(
            model_name='inputfile',
            name='place_set',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='files', to='dags_app.placeset'),
        ),
        migrations.AddField(
            model_name='runner',
            name='group',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runners', to='dags_app.mergegroup'),
        ),
        migrations.AddField(
            model_name='runner',
            name='round',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runners', to='dags_app.round'),
        ),
        migrations.AddField(
            model_name='runner',
            name='workflow',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runners', to='dags_app.workflow'),
        ),
        migrations.AddField(
            model_name='inputfile',
            name='runner',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='files', to='dags_app.runner'),
        ),
        migrations.AddIndex(
            model_name='inputfile',
            index=models.Index(condition=models.Q(('place_set__isnull', False), ('state__in', [dags_app.states.FileState['FRESH'], dags_app.states.FileState['ATTEMPTED']])), fields=['workflow', 'place_set', 'attempts', 'id'], name='input_file_to_lend'),
        ),
        migrations.AddIndex(
            model_name='inputfile',
            index=models.Index(condition=models.Q(('runner__isnull', False)), fields=['runner'], name='input_file_lent'),
        ),
        migrations.AddField(
            model_name='runnercount',
            name='round',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runner_counts', to='dags_app.round'),
        ),
        migrations.AddField(
            model_name='runnerevent',
            name='runner',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='dags_app.runner'),
        ),
        migrations.AddField(
            model_name='runnerevent',
            name='workflow',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='runner_events', to='dags_app.workflow'),
        ),
        migrations.AddField(
            model_name='runneroutput',
            name='runner',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outputs', to='dags_app.runner'),
        ),
        migrations.AddConstraint(
            model_name='placeset',
            constraint=models.UniqueConstraint(fields=('workflow', 'storages'), name='place_set_once'),
        ),
        migrations.AddIndex(
            model_name='runner',
            index=models.Index(condition=models.Q(('state__in', [dags_app.states.RunnerState['RECORDED'], dags_app.states.RunnerState['RUNNING']])), fields=['workflow'], name='runner_live'),
        ),
        migrations.AddIndex(
            model_name='runner',
            index=models.Index(fields=['round', 'outcome'], name='runner_by_outcome'),
        ),
        migrations.AddIndex(
            model_name='runner',
            index=models.Index(fields=['workflow', '-started_at', '-id'], name='runner_newest'),
        ),
        migrations.AddConstraint(
            model_name='runner',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['ended', 'recorded', 'running'])), name='runner_state'),
        ),
        migrations.AddConstraint(
            model_name='runner',
            constraint=models.CheckConstraint(condition=models.Q(('outcome__in', ['failed', 'late', 'lost', 'processed', 'stopped', 'unprocessed'])), name='runner_outcome'),
        ),
        migrations.AddConstraint(
            model_name='runner',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('ended_at__isnull', False), ('outcome__isnull', False), ('state', dags_app.states.RunnerState['ENDED'])), models.Q(models.Q(('state', dags_app.states.RunnerState['ENDED']), _negated=True), ('ended_at__isnull', True), ('outcome__isnull', True)), _connector='OR'), name='runner_ended_with_outcome'),
        ),
        migrations.AddConstraint(
            model_name='runner',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', [dags_app.states.RunnerState['RECORDED'], dags_app.states.RunnerState['RUNNING']])), fields=('round', 'node'), name='one_live_runner_per_node'),
        ),
        migrations.AddConstraint(
            model_name='runnercount',
            constraint=models.UniqueConstraint(fields=('round', 'site', 'outcome'), name='runner_count_once'),
        ),
        migrations.AddConstraint(
            model_name='runnercount',
            constraint=models.CheckConstraint(condition=models.Q(('outcome__in', ['failed', 'late', 'lost', 'processed', 'stopped', 'unprocessed'])), name='runner_count_outcome'),
        ),
        migrations.AddIndex(
            model_name='runnerevent',
            index=models.Index(fields=['workflow', '-id'], name='runner_event_newest'),
        ),
        migrations.AddConstraint(
            model_name='runnerevent',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['allocated', 'created', 'ended', 'failed', 'processed', 'reset', 'stalled', 'started', 'uploaded'])), name='runner_event_kind'),
        ),
        migrations.AddConstraint(
            model_name='runneroutput',
            constraint=models.UniqueConstraint(fields=('runner', 'name'), name='runner_output_once'),
        ),
        migrations.AddConstraint(
            model_name='runneroutput',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', ['confirmed', 'recorded', 'removed', 'void'])), name='runner_output_state'),
        ),
    ]
