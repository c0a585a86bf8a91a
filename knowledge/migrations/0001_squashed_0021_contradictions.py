"""The catalog, insights with their review, changesets, and what is derived from memories and catalog together."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import knowledge.models.approval
import memories.models.fields
import uuid
from django.db import migrations, models

from foundation.database import policies

INSIGHTS = policies.protect("insights", read=f"({policies.readable('owner')} OR persona = ANY {policies.CURATES})")
# A curator reads and changes the memories of the insights of their personas, even private ones.
# A function, because the planner would spend time on a subquery that few rows need.
IS_INSIGHT = """
    CREATE FUNCTION is_insight(memory uuid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN EXISTS (SELECT 1 FROM insights WHERE record_id = memory);
    END $$;
"""
OF_RECORD = f"persona = ANY {policies.CURATES} AND is_insight(id)"
OF_PASSAGE = f"persona = ANY {policies.CURATES} AND is_insight(record_id)"
CURATING = f"""{IS_INSIGHT}
    CREATE POLICY curating_reading ON memory_records FOR SELECT USING ({OF_RECORD});
    CREATE POLICY curating_changing ON memory_records FOR UPDATE USING ({OF_RECORD});
    CREATE POLICY curating ON memory_passages USING ({OF_PASSAGE});
"""
NOT_CURATING = """
    DROP POLICY curating_reading ON memory_records;
    DROP POLICY curating_changing ON memory_records;
    DROP POLICY curating ON memory_passages;
    DROP FUNCTION is_insight;
"""
# A change of a memory's scope changes the copies in its waivers, and it may be the owner's or a curator's.
CONCERNED = f"({policies.owned('by')} OR {policies.owned('owner')} OR persona = ANY {policies.CURATES})"
WAIVERS = policies.protect(
    "caveat_waivers",
    read=f"({policies.readable('owner')} OR {CONCERNED})",
    write=CONCERNED,
    insert=f"({policies.owned('by')} AND {policies.part_of('memory_records', 'record_id')})",
    delete=f"({policies.owned('by')} OR {policies.owned('owner')})",
)
# A curator may read what became of the questions that the curator has asked.
ASKED = f"({policies.owned('owner')} OR {policies.owned('asked_by')})"
# Derived rows are written by a service alone.
NOBODY = "false"
FIRST = policies.part_of("memory_records", "first_id")
SECOND = f"(second_id IS NULL OR {policies.part_of('memory_records', 'second_id')})"
BOTH = f"({FIRST} AND {SECOND})"
# table → its policies
PROTECTED = {
    "insights": INSIGHTS,
    "insight_decisions": policies.protect("insight_decisions", read=policies.part_of("insights", "insight_id", "record_id")),
    "suggestions": policies.protect("suggestions", read=policies.owned("owner")),
    "caveat_waivers": WAIVERS,
    "entity_uses": policies.protect("entity_uses", read=policies.owned("owner"), write=NOBODY),
    "entity_debts": policies.protect("entity_debts", read=f"(persona = ANY {policies.SHARED})", write=NOBODY),
    "interview_questions": policies.protect("interview_questions", read=ASKED),
    "contradictions": policies.protect("contradictions", read=BOTH, write=NOBODY),
    "settlements": policies.protect("settlements", read=BOTH, write=f"({policies.owned('by')} AND {BOTH})"),
}
# tables whose rows carry the owner, persona and visibility of their memory
COPIES = ("insights", "caveat_waivers")


class Migration(migrations.Migration):

    replaces = [('knowledge', '0001_initial'), ('knowledge', '0002_entity_baseline'), ('knowledge', '0003_catalog_cursor'), ('knowledge', '0004_decisions_and_entity_states'), ('knowledge', '0005_needs_more'), ('knowledge', '0006_memories_come_along'), ('knowledge', '0007_failed_calls'), ('knowledge', '0008_pairs_of_characters'), ('knowledge', '0009_catalog_texts'), ('knowledge', '0010_reworded_help_texts'), ('knowledge', '0011_baselines_due_and_shared_values'), ('knowledge', '0012_row_level_security'), ('knowledge', '0013_erasure_by_origin'), ('knowledge', '0014_snooze_and_assignment_rules'), ('knowledge', '0015_catalog_entities'), ('knowledge', '0016_suggestions'), ('knowledge', '0017_recent_memories_without_entities'), ('knowledge', '0018_caveats'), ('knowledge', '0019_knowledge_debt'), ('knowledge', '0020_second_approval'), ('knowledge', '0021_contradictions')]

    initial = True

    dependencies = [
        ('memories', '0035_unsettled_entities'),
    ]

    operations = [
        migrations.CreateModel(
            name='CatalogCursor',
            fields=[
                ('name', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('value', models.CharField(blank=True, max_length=500)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'catalog_cursors',
            },
        ),
        migrations.CreateModel(
            name='ContradictionScan',
            fields=[
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to='memories.memoryrecord')),
                ('at', models.DateTimeField()),
            ],
            options={
                'db_table': 'contradiction_scans',
            },
        ),
        migrations.CreateModel(
            name='ApprovalRule',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('readers', models.PositiveIntegerField(blank=True, default=50, help_text='Number of people who were shown memories about its entities in the last 30 days.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='readers')),
                ('derived', models.PositiveSmallIntegerField(blank=True, default=20, help_text='Number of entities downstream of its entities in lineage, at any distance up to 5.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(200)], verbose_name='derived entities')),
                ('sensitive', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), blank=True, default=knowledge.models.approval.sensitive_by_default, help_text='Words, separated by commas. A tag or glossary term is sensitive if its name has one.', size=None, verbose_name='sensitive tags and terms')),
                ('changed_by', models.CharField(blank=True, editable=False, max_length=254)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'verbose_name': 'approval rule',
                'verbose_name_plural': 'approval rules',
                'db_table': 'approval_rules',
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='approval_rule_is_one'), models.CheckConstraint(condition=models.Q(('derived__isnull', True), ('derived__lte', 200), _connector='OR'), name='derived_known')],
            },
        ),
        migrations.CreateModel(
            name='AssignmentRule',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('persona', models.CharField(max_length=60)),
                ('entity_urn', models.CharField(blank=True, max_length=500)),
                ('domain_urn', models.CharField(blank=True, max_length=500)),
                ('category', models.CharField(blank=True, max_length=30)),
                ('assignee', models.CharField(max_length=254)),
                ('target_days', models.PositiveSmallIntegerField(blank=True, help_text='Empty: REVIEW_TARGET_DAYS.', null=True)),
                ('created_by', models.CharField(max_length=254)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'verbose_name': 'assignment rule',
                'verbose_name_plural': 'assignment rules',
                'db_table': 'assignment_rules',
                'ordering': ['persona', 'id'],
                'constraints': [models.UniqueConstraint(fields=('persona', 'entity_urn', 'domain_urn', 'category'), name='assignment_rule_unique'), models.CheckConstraint(condition=models.Q(('category', ''), ('domain_urn', ''), ('entity_urn', ''), _negated=True), name='assignment_rule_has_a_condition')],
            },
        ),
        migrations.CreateModel(
            name='CatalogAspect',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('aspect', models.CharField(max_length=100)),
                ('version', models.PositiveIntegerField()),
                ('value', models.JSONField(null=True)),
                ('system_metadata', models.JSONField(default=dict)),
                ('is_latest', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'catalog_aspects',
                'ordering': ['urn', 'aspect', '-version'],
                'constraints': [models.UniqueConstraint(fields=('urn', 'aspect', 'version'), name='catalog_version_once'), models.UniqueConstraint(condition=models.Q(('is_latest', True)), fields=('urn', 'aspect'), name='catalog_one_latest_version')],
            },
        ),
        migrations.CreateModel(
            name='CatalogEntity',
            fields=[
                ('urn', models.CharField(max_length=500, primary_key=True, serialize=False)),
                ('entity_type', models.CharField(max_length=60)),
                ('name', models.CharField(max_length=500)),
                ('qualified_name', models.CharField(blank=True, max_length=500)),
                ('description', models.TextField(blank=True)),
                ('columns', models.TextField(blank=True, help_text='Column names, for search.')),
                ('platform', models.CharField(blank=True, max_length=100)),
                ('removed', models.BooleanField(default=False)),
                ('deprecated', models.BooleanField(default=False)),
                ('tail', models.GeneratedField(db_persist=True, expression=django.db.models.functions.text.Lower(models.Func(models.F('qualified_name'), models.Value('.'), models.Value(-1), function='split_part')), output_field=models.TextField())),
                ('search', models.GeneratedField(db_persist=True, expression=memories.models.fields.SearchText('qualified_name', 'name', 'description', 'columns'), output_field=django.contrib.postgres.search.SearchVectorField())),
            ],
            options={
                'db_table': 'catalog_entities',
                'ordering': ['name', 'urn'],
                'verbose_name_plural': 'catalog entities',
                'indexes': [models.Index(fields=['entity_type', 'name'], name='catalog_by_type'), models.Index(fields=['tail'], name='catalog_by_tail'), django.contrib.postgres.indexes.GinIndex(fields=['search'], name='catalog_words')],
            },
        ),
        migrations.CreateModel(
            name='CatalogText',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('embedding_model', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('embedding_text_hash', models.BinaryField(null=True)),
                ('entity', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='prose', to='knowledge.catalogentity')),
            ],
            options={
                'db_table': 'catalog_texts',
            },
        ),
        migrations.CreateModel(
            name='CatalogPassage',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('start', models.PositiveIntegerField()),
                ('stop', models.PositiveIntegerField()),
                ('vector', memories.models.fields.EmbeddingField()),
                ('text', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='knowledge.catalogtext')),
            ],
            options={
                'db_table': 'catalog_passages',
            },
        ),
        migrations.CreateModel(
            name='Changeset',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('entity_urn', models.CharField(blank=True, max_length=500)),
                ('persona', models.CharField(max_length=60)),
                ('catalog', models.CharField(help_text='The catalog that it was written to: local or datahub.', max_length=20)),
                ('state', models.CharField(choices=[('planned', 'Planned'), ('applied', 'Applied'), ('partial', 'Partial'), ('failed', 'Failed'), ('rolled_back', 'Rolled back'), ('waiting', 'Waits for a second approval'), ('declined', 'Declined')], default='planned', max_length=12)),
                ('insight_ids', models.JSONField(default=list, help_text='The insights that it applies, kept after a rollback.')),
                ('applied_by', models.CharField(max_length=254)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('rolled_back_by', models.CharField(blank=True, max_length=254)),
                ('rolled_back_at', models.DateTimeField(blank=True, null=True)),
                ('error', models.TextField(blank=True)),
                ('personas', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, help_text='Personas of its insights and of the memories that they replace.', size=None)),
                ('risks', models.JSONField(blank=True, default=list, help_text='Why it needs the approval of two curators, if it does.')),
            ],
            options={
                'db_table': 'changesets',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['entity_urn', '-created_at'], name='changeset_of_entity'), django.contrib.postgres.indexes.GinIndex(fields=['personas'], name='changeset_of_personas'), django.contrib.postgres.indexes.GinIndex(fields=['insight_ids'], name='changeset_of_insights'), models.Index(condition=models.Q(('state', 'waiting')), fields=['created_at'], name='changeset_waiting')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['planned', 'applied', 'partial', 'failed', 'rolled_back', 'waiting', 'declined'])), name='changeset_state_known')],
            },
        ),
        migrations.CreateModel(
            name='ColumnEdge',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('downstream', models.CharField(max_length=500)),
                ('downstream_column', models.CharField(max_length=300)),
                ('upstream', models.CharField(max_length=500)),
                ('upstream_column', models.CharField(max_length=300)),
                ('said_by', models.CharField(max_length=500)),
            ],
            options={
                'db_table': 'catalog_column_lineage',
                'indexes': [models.Index(fields=['downstream', 'downstream_column'], name='column_lineage_of_downstream'), models.Index(fields=['said_by'], name='column_lineage_said_by')],
            },
        ),
        migrations.CreateModel(
            name='EntityDebt',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('persona', models.CharField(help_text='Who may read the row; * for everyone.', max_length=60)),
                ('name', models.CharField(max_length=500)),
                ('entity_type', models.CharField(blank=True, max_length=60)),
                ('domain', models.CharField(blank=True, max_length=500)),
                ('calls', models.PositiveIntegerField(default=0)),
                ('recalled', models.PositiveIntegerField(default=0)),
                ('unanswered', models.PositiveIntegerField(default=0)),
                ('memories', models.PositiveIntegerField(default=0)),
                ('stale', models.PositiveIntegerField(default=0)),
                ('stale_since', models.DateTimeField(blank=True, null=True)),
                ('contested', models.PositiveIntegerField(default=0)),
                ('questions', models.PositiveIntegerField(default=0, help_text='Open questions to authors of insights.')),
                ('no_description', models.PositiveSmallIntegerField(default=0)),
                ('answers', models.PositiveIntegerField(default=0, help_text='Answers in interviews, which halve it.')),
            ],
            options={
                'db_table': 'entity_debts',
                'indexes': [models.Index(fields=['persona', 'urn'], name='entity_debt_of_persona')],
                'constraints': [models.UniqueConstraint(fields=('urn', 'persona'), name='entity_debt_once_a_persona')],
            },
        ),
        migrations.CreateModel(
            name='EntityState',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('catalog', models.CharField(max_length=200)),
                ('urn', models.CharField(max_length=500)),
                ('fingerprint', models.CharField(blank=True, help_text='SHA-256 of the parts of the entity that can make memories stale.', max_length=64)),
                ('checked_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'entity_states',
                'ordering': ['urn'],
                'indexes': [models.Index(fields=['catalog', 'checked_at'], name='entity_state_check_next')],
                'constraints': [models.UniqueConstraint(fields=('catalog', 'urn'), name='entity_state_once_a_catalog')],
            },
        ),
        migrations.CreateModel(
            name='EntityUse',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('persona', models.CharField(help_text='The persona of the calls; * for none.', max_length=60)),
                ('owner', models.CharField(help_text='The person who called.', max_length=254)),
                ('week', models.DateField(help_text='The Monday of the week, in UTC.')),
                ('calls', models.PositiveIntegerField(default=0, help_text='Calls that named the entity.')),
                ('unanswered', models.PositiveIntegerField(default=0, help_text='Those that found no memory.')),
                ('recalled', models.PositiveIntegerField(default=0, help_text='Memories about it that were attached.')),
            ],
            options={
                'db_table': 'entity_uses',
                'indexes': [models.Index(fields=['owner', 'urn'], name='entity_use_of_person'), models.Index(fields=['week'], name='entity_use_expiry')],
                'constraints': [models.UniqueConstraint(fields=('urn', 'persona', 'owner', 'week'), name='entity_use_once_a_week')],
            },
        ),
        migrations.CreateModel(
            name='FailedCall',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('connection', models.CharField(max_length=120)),
                ('tool', models.CharField(max_length=100)),
                ('question', models.TextField(help_text='The statement that failed.')),
                ('error', models.CharField(max_length=500)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'failed_calls',
                'ordering': ['-at'],
                'indexes': [models.Index(fields=['connection', 'tool', '-at'], name='failed_call_of_connection')],
            },
        ),
        migrations.CreateModel(
            name='Insight',
            fields=[
                ('record', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='insight', serialize=False, to='memories.memoryrecord')),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('approved', 'Approved'), ('applied', 'Applied'), ('rejected', 'Rejected'), ('superseded', 'Superseded')], default='pending', max_length=12)),
                ('suggested_actions', models.JSONField(default=list)),
                ('wanted_visibility', models.CharField(choices=[('private', 'Private'), ('persona', 'Persona'), ('everyone', 'Everyone')], default='persona', max_length=10)),
                ('reviewed_by', models.CharField(blank=True, max_length=254)),
                ('reviewed_at', models.DateTimeField(blank=True, null=True)),
                ('review_notes', models.TextField(blank=True)),
                ('applied_by', models.CharField(blank=True, max_length=254)),
                ('applied_at', models.DateTimeField(blank=True, null=True)),
                ('edit_at', models.DateTimeField(blank=True, null=True)),
                ('edit_by', models.CharField(blank=True, max_length=254)),
                ('pending_edit', models.JSONField(blank=True, default=dict, help_text='An edit that waits for approval. The approved version stays in force.')),
                ('assignee', models.CharField(blank=True, help_text='The curator to whom a rule or a colleague has assigned it.', max_length=254)),
                ('question_at', models.DateTimeField(blank=True, help_text='When a curator asked the author a question; empty once it is answered.', null=True)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('snoozed_until', models.DateTimeField(blank=True, help_text='Until then it is not in the review queue; empty if it is not snoozed.', null=True)),
                ('target_days', models.PositiveSmallIntegerField(blank=True, help_text='Target age in days of its rule; empty: REVIEW_TARGET_DAYS.', null=True)),
                ('beside', models.ForeignKey(blank=True, help_text="The author's memory with the same text when it was captured. Applying supersedes it, too.", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='captured_beside', to='memories.memoryrecord')),
                ('changeset', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='insights', to='knowledge.changeset')),
                ('replaces', models.ForeignKey(blank=True, help_text='The memory that this one supersedes when it is applied.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='proposed_corrections', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'insights',
                'ordering': ['record__created_at'],
                'permissions': [('curate', 'Can review, apply and roll back insights')],
                'indexes': [models.Index(fields=['state'], name='insight_by_state'), models.Index(condition=models.Q(('edit_at__isnull', False)), fields=['edit_at'], name='insight_edit_waits'), models.Index(condition=models.Q(('question_at__isnull', False)), fields=['question_at'], name='insight_question_open'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('review_notes', config='simple'), name='insight_review_words')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['pending', 'approved', 'applied', 'rejected', 'superseded'])), name='insight_state_known'), models.CheckConstraint(condition=models.Q(models.Q(('state', 'applied'), _negated=True), models.Q(('applied_at__isnull', False), ('changeset__isnull', False)), _connector='OR'), name='insight_applied_by_a_changeset'), models.CheckConstraint(condition=models.Q(('state', 'pending'), ('state', 'superseded'), models.Q(('reviewed_at__isnull', False), models.Q(('reviewed_by', ''), _negated=True)), _connector='OR'), name='insight_reviewed_by_somebody')],
            },
        ),
        migrations.CreateModel(
            name='Decision',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('approved', 'Approved'), ('rejected', 'Rejected'), ('taken_back', 'Taken back'), ('appealed', 'Appealed'), ('edit_approved', 'Edit approved'), ('edit_rejected', 'Edit rejected'), ('needs_more', 'Needs info'), ('answered', 'Answered'), ('handed_over', 'Handed over'), ('snoozed', 'Snoozed')], max_length=20)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('notes', models.TextField(blank=True)),
                ('before', models.JSONField(default=dict, help_text='The values that undoing this decision restores.')),
                ('overturns', models.CharField(blank=True, help_text='The curator whose earlier decision this one overturns.', max_length=254)),
                ('insight', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='decisions', to='knowledge.insight')),
            ],
            options={
                'db_table': 'insight_decisions',
                'ordering': ['at', 'id'],
                'indexes': [models.Index(condition=models.Q(('overturns', ''), _negated=True), fields=['overturns', '-at'], name='decision_overturns'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('notes', config='simple'), name='decision_words')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['approved', 'rejected', 'taken_back', 'appealed', 'edit_approved', 'edit_rejected', 'needs_more', 'answered', 'handed_over', 'snoozed'])), name='decision_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='InterviewQuestion',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.CharField(help_text='The person who is asked.', max_length=254)),
                ('urn', models.CharField(max_length=500)),
                ('reason', models.CharField(choices=[('contested', 'Contested'), ('unanswered', 'Nothing found'), ('stale', 'Stale'), ('no_description', 'No description')], max_length=20)),
                ('record_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), blank=True, default=list, help_text='The memories that it is about.', size=None)),
                ('since', models.DateTimeField(blank=True, help_text='Since when they are stale.', null=True)),
                ('asked_by', models.CharField(max_length=254)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('open', 'Not answered yet'), ('answered', 'Answered'), ('skipped', 'Skipped'), ('unknown', 'Not known to this person'), ('passed', 'Passed to somebody else'), ('closed', 'No longer needed')], default='open', max_length=10)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('stored_new', models.BooleanField(default=False, help_text='Whether the answer stored the insight.')),
                ('record', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memories.memoryrecord', verbose_name='answer')),
            ],
            options={
                'db_table': 'interview_questions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('state', 'open')), fields=['owner', 'created_at'], name='interview_open'), models.Index(fields=['asked_by', '-created_at'], name='interview_asked_by'), models.Index(fields=['urn', 'reason'], name='interview_about')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'urn', 'reason'), name='interview_question_once')],
            },
        ),
        migrations.CreateModel(
            name='LineageEdge',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('downstream', models.CharField(max_length=500)),
                ('upstream', models.CharField(max_length=500)),
                ('said_by', models.CharField(default='', max_length=500)),
            ],
            options={
                'db_table': 'catalog_lineage',
                'indexes': [models.Index(fields=['upstream', 'downstream'], name='lineage_of_upstream'), models.Index(fields=['said_by'], name='lineage_said_by')],
                'constraints': [models.UniqueConstraint(fields=('downstream', 'upstream', 'said_by'), name='lineage_edge_once_a_source')],
            },
        ),
        migrations.CreateModel(
            name='Settlement',
            fields=[
                ('urn', models.CharField(blank=True, help_text='The entity that is described.', max_length=500)),
                ('column', models.CharField(blank=True, default='', max_length=300)),
                ('first_key', models.CharField(help_text='The key of the first text.', max_length=32)),
                ('second_key', models.CharField(help_text='The key of the second text.', max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('verdict', models.CharField(choices=[('first', 'The first one holds'), ('second', 'The second one holds'), ('both', 'Both hold, differently'), ('neither', 'Neither holds')], max_length=10)),
                ('state', models.CharField(choices=[('decided', 'Decided'), ('proposed', 'Proposed to the owner')], max_length=10)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('note', models.TextField(blank=True)),
                ('first_scope', models.CharField(blank=True, default='', max_length=520)),
                ('second_scope', models.CharField(blank=True, default='', max_length=520)),
                ('effects', models.JSONField(default=list, help_text='What it has done, as undoing it reverts it.')),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
                ('undone_by', models.CharField(blank=True, default='', max_length=254)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
                ('second', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'settlements',
                'ordering': ['-at', 'id'],
                'indexes': [models.Index(fields=['by', '-at'], name='settlement_by_person'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('note', config='simple'), name='settlement_words')],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['first', 'second', 'both', 'neither'])), name='settlement_verdict_known'), models.CheckConstraint(condition=models.Q(('state__in', ['decided', 'proposed'])), name='settlement_state_known')],
            },
        ),
        migrations.CreateModel(
            name='Suggestion',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('owner', models.CharField(max_length=254)),
                ('kind', models.CharField(choices=[('decision', 'Decision'), ('correction', 'Correction'), ('failed_statement', 'Repaired statement'), ('open_question', 'Question without an answer')], max_length=20)),
                ('text', models.CharField(max_length=500)),
                ('evidence', models.CharField(blank=True, help_text='Where it was found.', max_length=500)),
                ('entities', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=200), default=list, help_text='Names, as in the session.', size=None)),
                ('source', models.CharField(choices=[('hook', 'Session of an agent'), ('conversation', 'Conversation'), ('recalls', 'Repeated questions')], max_length=12)),
                ('program', models.CharField(blank=True, max_length=40)),
                ('repository', models.CharField(blank=True, max_length=200)),
                ('session', models.CharField(blank=True, help_text='The last one it was found in.', max_length=200)),
                ('text_key', models.CharField(editable=False, max_length=64)),
                ('times_seen', models.PositiveIntegerField(default=1, help_text='Sessions it was found in.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('kept', 'Kept'), ('discarded', 'Discarded'), ('never', 'Never again')], default='waiting', max_length=10)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, help_text='Empty: it stays.', null=True)),
                ('stored_new', models.BooleanField(default=False, help_text='Whether keeping it stored the memory.')),
                ('record', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='memories.memoryrecord', verbose_name='memory')),
            ],
            options={
                'db_table': 'suggestions',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['owner', '-created_at'], name='suggestion_waiting'), models.Index(fields=['expires_at'], name='suggestion_expiry')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'text_key'), name='suggestion_once_a_person')],
            },
        ),
        migrations.CreateModel(
            name='CaveatWaiver',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(help_text='The derived entity.', max_length=500)),
                ('column', models.CharField(blank=True, help_text='The derived column. Empty: the whole entity.', max_length=300)),
                ('reason', models.TextField()),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('content_key', models.CharField(help_text='The key of the text that was waived. Another text ends the waiver.', max_length=32)),
                ('withdrawn_by', models.CharField(blank=True, max_length=254)),
                ('withdrawn_at', models.DateTimeField(blank=True, null=True)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='waivers', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'caveat_waivers',
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['urn'], name='waiver_of_entity'), models.Index(fields=['by'], name='waiver_of_person'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('reason', config='simple'), name='waiver_words')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('withdrawn_at__isnull', True)), fields=('record', 'urn', 'column', 'content_key'), name='caveat_waived_once')],
            },
        ),
        migrations.CreateModel(
            name='Change',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField()),
                ('request', models.PositiveSmallIntegerField(help_text='The index of the requested change that it belongs to.')),
                ('change_type', models.CharField(max_length=40)),
                ('urn', models.CharField(max_length=500)),
                ('aspect', models.CharField(max_length=100)),
                ('path', models.JSONField(default=list)),
                ('operation', models.CharField(help_text='add or remove, as in JSON patch.', max_length=10)),
                ('had_before', models.BooleanField(help_text='Whether there was a value before. An empty value counts.')),
                ('before', models.JSONField(null=True)),
                ('written', models.JSONField(null=True)),
                ('creates', models.BooleanField(default=False, help_text='The change creates an entity. Rolling back removes or resolves it.')),
                ('outcome', models.CharField(choices=[('planned', 'Planned'), ('sending', 'Sending'), ('landed', 'Landed'), ('noop', 'Nothing to change'), ('failed', 'Failed'), ('conflict', 'Conflict'), ('reverting', 'Reverting'), ('reverted', 'Reverted'), ('kept', 'Kept for other insights')], default='planned', max_length=10)),
                ('error', models.TextField(blank=True)),
                ('before_erased', models.BooleanField(default=False, help_text="The value from before belonged to an insight that was erased. It can't be restored.")),
                ('changeset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='knowledge.changeset')),
            ],
            options={
                'db_table': 'changes',
                'ordering': ['changeset_id', 'position'],
                'indexes': [models.Index(fields=['urn', 'aspect'], name='change_of_aspect')],
                'constraints': [models.UniqueConstraint(fields=('changeset', 'position'), name='change_position_once'), models.CheckConstraint(condition=models.Q(('outcome__in', ['planned', 'sending', 'landed', 'noop', 'failed', 'conflict', 'reverting', 'reverted', 'kept'])), name='change_outcome_known')],
            },
        ),
        migrations.CreateModel(
            name='ChangesetApproval',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('verdict', models.CharField(choices=[('approved', 'Approved'), ('declined', 'Declined'), ('withdrawn', 'Withdrawn')], max_length=10)),
                ('notes', models.TextField(blank=True)),
                ('changeset', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='knowledge.changeset')),
            ],
            options={
                'db_table': 'changeset_approvals',
                'ordering': ['at', 'id'],
                'indexes': [django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('notes', config='simple'), name='approval_words')],
                'constraints': [models.CheckConstraint(condition=models.Q(('verdict__in', ['approved', 'declined', 'withdrawn'])), name='approval_verdict_known'), models.UniqueConstraint(condition=models.Q(('verdict', 'approved')), fields=('changeset', 'by'), name='approval_once_a_curator')],
            },
        ),
        migrations.CreateModel(
            name='Contradiction',
            fields=[
                ('urn', models.CharField(blank=True, help_text='The entity that is described.', max_length=500)),
                ('column', models.CharField(blank=True, default='', max_length=300)),
                ('first_key', models.CharField(help_text='The key of the first text.', max_length=32)),
                ('second_key', models.CharField(help_text='The key of the second text.', max_length=32)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('reason', models.CharField(help_text='The words that differ.', max_length=300)),
                ('found_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('first', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
                ('second', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'contradictions',
                'ordering': ['-found_at', 'id'],
                'indexes': [models.Index(fields=['-found_at', 'id'], name='contradiction_newest')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('second__isnull', True), models.Q(('urn', ''), _negated=True)), models.Q(('column', ''), ('second__isnull', False), ('urn', '')), _connector='OR'), name='contradiction_with_memory_or_catalog'), models.UniqueConstraint(condition=models.Q(('second__isnull', False)), fields=('first', 'second'), name='contradiction_of_memories_once'), models.UniqueConstraint(condition=models.Q(('second__isnull', True)), fields=('first', 'urn', 'column'), name='contradiction_of_catalog_once')],
            },
        ),
        migrations.CreateModel(
            name='EntityBaseline',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('urn', models.CharField(max_length=500)),
                ('existed', models.BooleanField()),
                ('deprecated', models.BooleanField(default=False)),
                ('columns', models.JSONField(default=dict, help_text="The entity's columns: simple path → [native type, nullable].")),
                ('taken_at', models.DateTimeField(default=django.utils.timezone.now, help_text='Empty if the catalog was unavailable: it is taken later.', null=True)),
                ('checked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('to_verify', models.TextField(blank=True, help_text='Changes to columns that the memory does not refer to. It may still be true.')),
                ('catalog', models.CharField(blank=True, help_text='The catalog that was read.', max_length=200)),
                ('description_hash', models.CharField(blank=True, help_text="SHA-256 of the entity's description.", max_length=64)),
                ('hint', models.TextField(blank=True, help_text="Changes to columns that the memory's text mentions, shown in recall and review.")),
                ('mentioned', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=300), default=list, help_text="Columns named in the memory's text.", size=None)),
                ('due', models.CharField(blank=True, choices=[('', 'Nothing'), ('take', 'Take it'), ('compare', 'Compare it')], default='', max_length=10)),
                ('replaced', models.JSONField(help_text='The baseline before the last verification or edit, and the name of that change.', null=True)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='baselines', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'entity_baselines',
                'ordering': ['record_id', 'urn'],
                'indexes': [models.Index(fields=['checked_at'], name='baseline_check_next'), models.Index(fields=['urn'], name='baseline_of_entity'), models.Index(condition=models.Q(('hint', ''), _negated=True), fields=['record'], name='baseline_with_hint'), models.Index(condition=models.Q(('due', ''), _negated=True), fields=['record'], name='baseline_due')],
                'constraints': [models.UniqueConstraint(fields=('record', 'urn'), name='baseline_once_per_entity')],
            },
        ),
        *(migrations.RunSQL(policies.copy_scope(table), policies.no_copy_scope(table)) for table in COPIES),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
        migrations.RunSQL(CURATING, NOT_CURATING),
    ]
