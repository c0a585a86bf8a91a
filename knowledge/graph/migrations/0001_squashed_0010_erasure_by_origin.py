"""The knowledge graphs of persons and personas."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import memories.models.fields
import uuid
from django.db import migrations, models

from foundation.database import policies

# Readers of a shared graph may not change it. The graph of a persona has no owner.
WRITER = f"({policies.owned()} OR created_by = '' AND persona = ANY {policies.SHARED})"
# table → its policies
PROTECTED = {
    "graphs": policies.protect("graphs", read=policies.readable(), write=WRITER),
    "graph_entities": policies.protect("graph_entities", read=policies.part_of("graphs", "graph_id")),
    "graph_observations": policies.protect("graph_observations", read=policies.part_of("graphs", "graph_id")),
    "graph_observation_moves": policies.protect("graph_observation_moves", read=policies.part_of("graph_observations", "observation_id")),
    "graph_passages": policies.protect("graph_passages", read=policies.part_of("graph_observations", "observation_id")),
    "graph_relations": policies.protect("graph_relations", read=policies.part_of("graphs", "graph_id")),
    "graph_reflections": policies.protect("graph_reflections", read=policies.part_of("graphs", "graph_id")),
    "graph_access_days": policies.protect("graph_access_days", read=policies.part_of("graph_entities", "entity_id")),
    "graph_co_occurrences": policies.protect("graph_co_occurrences", read=policies.part_of("graph_entities", "first_id")),
    "graph_upkeep_proposals": policies.protect("graph_upkeep_proposals", read=policies.part_of("graph_entities", "entity_id")),
}


class Migration(migrations.Migration):

    replaces = [('graph', '0001_graph'), ('graph', '0002_indexes'), ('graph', '0003_upkeep'), ('graph', '0004_reworded_help_texts'), ('graph', '0005_long_names_in_any_form'), ('graph', '0006_moved_observations_and_deleted_relations'), ('graph', '0007_writers_of_reflections'), ('graph', '0008_flags_that_wait'), ('graph', '0009_row_level_security'), ('graph', '0010_erasure_by_origin')]

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Graph',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_by', models.CharField(blank=True, max_length=254)),
                ('persona', models.CharField(max_length=60)),
                ('visibility', models.CharField(choices=[('private', 'Private'), ('persona', 'Persona'), ('everyone', 'Everyone')], default='private', max_length=10)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_number', models.BigIntegerField(default=0, help_text='The last integer assigned to a row of this graph.')),
            ],
            options={
                'db_table': 'graphs',
                'constraints': [models.UniqueConstraint(condition=models.Q(('created_by', ''), _negated=True), fields=('created_by',), name='graph_of_person'), models.UniqueConstraint(condition=models.Q(('created_by', '')), fields=('persona',), name='graph_of_persona'), models.CheckConstraint(condition=models.Q(('visibility__in', ['private', 'persona', 'everyone'])), name='graph_visibility_known')],
            },
        ),
        migrations.CreateModel(
            name='Entity',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('name', models.CharField(max_length=5000)),
                ('entity_type', models.CharField(default='Generic', max_length=200)),
                ('status', models.CharField(default='active', max_length=60)),
                ('urn', models.CharField(blank=True, help_text='The catalog entity that it represents.', max_length=500)),
                ('is_placeholder', models.BooleanField(default=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('deleted_at', models.DateTimeField(blank=True, null=True)),
                ('folded', models.TextField(default='', editable=False)),
                ('grams', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=3), default=list, editable=False, size=None)),
                ('access_count', models.PositiveIntegerField(default=1)),
                ('access_days', models.PositiveIntegerField(default=0)),
                ('last_access', models.DateTimeField(blank=True, null=True)),
                ('graph', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='entities', to='graph.graph')),
            ],
            options={
                'verbose_name_plural': 'entities',
                'db_table': 'graph_entities',
                'ordering': ['number'],
                'indexes': [models.Index(condition=models.Q(('urn', ''), _negated=True), fields=['urn'], name='entity_urn'), models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['deleted_at'], name='entity_deleted'), django.contrib.postgres.indexes.GinIndex(fields=['grams'], gin_pending_list_limit=64, name='entity_grams'), models.Index(models.F('graph'), django.db.models.functions.text.MD5(models.Func('name', function='NORMALIZE')), name='entity_name_form')],
                'constraints': [models.UniqueConstraint(fields=('graph', 'number'), name='entity_number_once'), models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='entity_has_name'), models.UniqueConstraint(models.F('graph'), django.db.models.functions.text.MD5('name'), condition=models.Q(('deleted_at', None)), name='entity_name_once')],
            },
        ),
        migrations.CreateModel(
            name='Observation',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('text', models.TextField()),
                ('kind', models.CharField(default='generic', max_length=60)),
                ('similarity_flag', models.BooleanField(default=False, help_text='Nearly the same as another observation of the entity.')),
                ('supersedes', models.BigIntegerField(blank=True, help_text='The number of the observation that it replaces.', null=True)),
                ('superseded_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('folded', models.TextField(default='', editable=False)),
                ('grams', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=3), default=list, editable=False, size=None)),
                ('embedding_model', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('embedding_text_hash', models.BinaryField(null=True)),
                ('is_flag_due', models.BooleanField(default=False, editable=False, help_text='Waits for its embedding, which decides on similarity_flag.')),
                ('entity', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='observations', to='graph.entity')),
                ('graph', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='observations', to='graph.graph')),
            ],
            options={
                'db_table': 'graph_observations',
                'ordering': ['number'],
                'indexes': [models.Index(fields=['entity', 'number'], name='observation_of_entity'), models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='observation_ended'), django.contrib.postgres.indexes.GinIndex(fields=['grams'], gin_pending_list_limit=64, name='observation_grams'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('text', config='simple'), name='observation_words')],
                'constraints': [models.UniqueConstraint(fields=('graph', 'number'), name='observation_number_once'), models.CheckConstraint(condition=models.Q(('text', ''), _negated=True), name='observation_has_text')],
            },
        ),
        migrations.CreateModel(
            name='ObservationMove',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('moved_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('entity', models.ForeignKey(help_text='The former entity.', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.entity')),
                ('observation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='moves', to='graph.observation')),
            ],
            options={
                'db_table': 'graph_observation_moves',
            },
        ),
        migrations.CreateModel(
            name='ObservationPassage',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('start', models.PositiveIntegerField()),
                ('stop', models.PositiveIntegerField()),
                ('vector', memories.models.fields.EmbeddingField()),
                ('observation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='graph.observation')),
            ],
            options={
                'db_table': 'graph_passages',
            },
        ),
        migrations.CreateModel(
            name='Relation',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('relation_type', models.CharField(max_length=200)),
                ('context', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('deleted_at', models.DateTimeField(blank=True, null=True)),
                ('graph', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='relations', to='graph.graph')),
                ('source', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='outgoing', to='graph.entity')),
                ('target', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='incoming', to='graph.entity')),
            ],
            options={
                'db_table': 'graph_relations',
                'ordering': ['number'],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('source', 'target', 'relation_type'), name='relation_once'), models.UniqueConstraint(fields=('graph', 'number'), name='relation_number_once')],
            },
        ),
        migrations.CreateModel(
            name='Reflection',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('target_type', models.CharField(max_length=10)),
                ('author', models.CharField(blank=True, help_text="Whose words it gives, if not its writer's own.", max_length=60)),
                ('mood', models.CharField(blank=True, max_length=60)),
                ('content', models.TextField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('vector', memories.models.fields.EmbeddingField(null=True)),
                ('embedding_model', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('embedding_text_hash', models.BinaryField(null=True)),
                ('created_by', models.CharField(blank=True, help_text='Its writer. Empty for older reflections.', max_length=254)),
                ('entity', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reflections', to='graph.entity')),
                ('graph', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='reflections', to='graph.graph')),
                ('relation', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='reflections', to='graph.relation')),
            ],
            options={
                'db_table': 'graph_reflections',
                'ordering': ['-number'],
                'indexes': [django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('content', config='simple'), name='reflection_words')],
                'constraints': [models.UniqueConstraint(fields=('graph', 'number'), name='reflection_number_once')],
            },
        ),
        migrations.CreateModel(
            name='UpkeepProposal',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('split', 'Split an entity'), ('duplicate', 'End a duplicate')], max_length=10)),
                ('score', models.FloatField(help_text='For duplicates their similarity, for a split how much the entity exceeds its limits.')),
                ('state', models.CharField(choices=[('open', 'Open'), ('accepted', 'Accepted'), ('dismissed', 'Dismissed')], default='open', max_length=10)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decided_by', models.CharField(blank=True, max_length=254)),
                ('ends', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.observation')),
                ('entity', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.entity')),
                ('stays', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.observation')),
            ],
            options={
                'db_table': 'graph_upkeep_proposals',
                'ordering': ['-score'],
                'constraints': [models.UniqueConstraint(fields=('entity', 'kind', 'ends', 'stays'), name='upkeep_proposed_once', nulls_distinct=False)],
            },
        ),
        migrations.CreateModel(
            name='CoOccurrence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('count', models.PositiveIntegerField(default=0)),
                ('last_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('first', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.entity')),
                ('second', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='graph.entity')),
            ],
            options={
                'db_table': 'graph_co_occurrences',
                'constraints': [models.UniqueConstraint(fields=('first', 'second'), name='pair_once'), models.CheckConstraint(condition=models.Q(('first__lt', models.F('second'))), name='pair_in_order')],
            },
        ),
        migrations.CreateModel(
            name='AccessDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('count', models.PositiveIntegerField(default=0)),
                ('entity', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='days', to='graph.entity')),
            ],
            options={
                'db_table': 'graph_access_days',
                'constraints': [models.UniqueConstraint(fields=('entity', 'day'), name='access_day_once')],
            },
        ),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
    ]
