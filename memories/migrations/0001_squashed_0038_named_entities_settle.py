"""The tables of memories, their history, and what hangs on them."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.contrib.postgres.search
import django.core.validators
import django.db.models.deletion
import django.db.models.fields.json
import django.utils.timezone
import foundation.people.models
import memories.models.fields
import pgvector.django.extensions
import uuid
from django.conf import settings
from django.db import migrations, models

from foundation.database import policies

# In line, where a scan finds them; the bits, which a scan does not need, out of it.
STORAGE = """
    ALTER TABLE memory_passages ALTER COLUMN vector SET STORAGE PLAIN;
    ALTER TABLE memory_passages ALTER COLUMN token_bits SET STORAGE EXTERNAL;
    ALTER TABLE memory_passages SET (toast_tuple_target = 128);
"""
# Reading a memory permits updates, because a reader may mark it stale, and the use of memories is counted. The services
# decide who may change what.
# A curator may correct a stale memory in the name of its owner.
CURATED = f"(visibility <> 'private' AND persona = ANY {policies.CURATES})"
RECORDS = policies.protect(
    "memory_records",
    read=policies.readable(),
    insert=f"{policies.owned()} OR {CURATED}",
    delete=policies.owned(),
)
OF_RECORD = policies.part_of("memory_records", "record_id")
# An earlier state can have been private, while the memory is shared now.
REVISIONS = policies.protect("memory_revisions", read=policies.readable_state(), write=OF_RECORD)
READABLE = f"""(
    owner = {policies.EMAIL}
    OR owner = '' AND (CASE persona WHEN '' THEN '*' ELSE persona END) = ANY {policies.SHARED})"""
REPORTER = policies.owned("by")
# A change of a memory's scope changes the copies in its reports, so owners may update reports. Services don't.
CONCERNED = (
    f"({REPORTER} OR {policies.owned('owner')} OR (visibility <> 'private' AND persona = ANY {policies.CURATES}))"
)
REPORTS = policies.protect(
    "memory_reports",
    read=CONCERNED,
    insert=f"({REPORTER} AND {policies.part_of('memory_records', 'record_id')})",
    delete=f"({REPORTER} OR {policies.owned('owner')})",
)
AUTHOR = policies.owned("created_by")
DOCUMENTS = policies.protect("citing_documents", read=f"({AUTHOR} OR is_shared)", write=AUTHOR)
OF_AUTHOR = (
    "(EXISTS (SELECT 1 FROM citing_documents whole WHERE whole.id = document_id "
    f"AND whole.created_by = {policies.EMAIL}))"
)
# Readers of a memory may know that documents cite it, and no more.
CITATIONS = policies.protect(
    "memory_citations",
    read=f"({policies.part_of('citing_documents', 'document_id')} OR {policies.part_of('memory_records', 'record_id')})",
    write=OF_AUTHOR,
)
# Rows are written by the triggers alone, in the transaction of whoever changes the memory. Workers read and delete them.
POLICIES = policies.protect(
    "memory_lexeme_changes", read=policies.owned("owner"), write="false", insert="pg_trigger_depth() > 0"
)
# Archived memories are not counted. The update of another column writes nothing. The function compares the rows, because a
# trigger whose condition names the column `search` would be dropped when `rebuild_search` creates that column anew.
TRIGGERS = """
    CREATE FUNCTION note_lexeme_changes() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF (OLD.created_by, OLD.persona, OLD.visibility, OLD.status = 'archived', OLD.search)
                IS NOT DISTINCT FROM (NEW.created_by, NEW.persona, NEW.visibility, NEW.status = 'archived', NEW.search)
            THEN
                RETURN NULL;
            END IF;
        END IF;
        IF TG_OP <> 'INSERT' AND OLD.status <> 'archived' THEN
            INSERT INTO memory_lexeme_changes (owner, persona, visibility, search, documents)
            VALUES (OLD.created_by, OLD.persona, OLD.visibility, OLD.search, -1);
        END IF;
        IF TG_OP <> 'DELETE' AND NEW.status <> 'archived' THEN
            INSERT INTO memory_lexeme_changes (owner, persona, visibility, search, documents)
            VALUES (NEW.created_by, NEW.persona, NEW.visibility, NEW.search, 1);
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_lexeme_changes AFTER INSERT OR UPDATE OR DELETE ON memory_records
        FOR EACH ROW EXECUTE FUNCTION note_lexeme_changes();
"""
NO_TRIGGERS = """
    DROP TRIGGER note_lexeme_changes ON memory_records;
    DROP FUNCTION note_lexeme_changes;
"""
# A curator may make a memory private, which takes the rows that belong to it out of their own sight. The trigger that
# copies the memory's owner, persona and visibility to these rows must reach them all the same. It writes nothing else.
# The setting is changed in the body: only a superuser may attach a setting of our own to a function.
PAST_READERS = """
    CREATE OR REPLACE FUNCTION spread_scope() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE before text := coalesce(current_setting('commonplace.sees_all', true), '');
    BEGIN
        PERFORM set_config('commonplace.sees_all', 'on', true);
        EXECUTE format('UPDATE %I SET owner = $1, persona = $2, visibility = $3 WHERE record_id = $4', TG_ARGV[0])
        USING NEW.created_by, NEW.persona, NEW.visibility, NEW.id;
        PERFORM set_config('commonplace.sees_all', before, true);
        RETURN NULL;
    END $$;
"""
# table → its policies
PROTECTED = {
    "memory_records": RECORDS,
    "memory_revisions": REVISIONS,
    "memory_feedback": policies.protect("memory_feedback", read=policies.readable("owner")),
    "memory_passages": policies.protect("memory_passages", read=policies.readable("owner")),
    "memory_verifications": policies.protect("memory_verifications", read=policies.readable("owner")),
    "memory_lexemes": policies.protect("memory_lexemes", read=READABLE, write="false"),
    "memory_reports": REPORTS,
    "citing_documents": DOCUMENTS,
    "memory_citations": CITATIONS,
    "memory_lexeme_changes": POLICIES,
}
# tables whose rows carry the owner, persona and visibility of their memory
COPIES = ("memory_passages", "memory_feedback", "memory_verifications", "memory_reports")


def create_default_persona(apps, schema_editor):
    """Create the persona of those who were given none: there has to be exactly one."""
    apps.get_model("memories", "Persona").objects.get_or_create(
        is_default=True, defaults={"name": "analyst", "title": "Analysts", "tools_allow": ["*"]}
    )


class Migration(migrations.Migration):

    replaces = [('memories', '0001_initial'), ('memories', '0002_default_persona'), ('memories', '0003_lexeme_shared'), ('memories', '0004_batches_and_feedback'), ('memories', '0005_not_active_index'), ('memories', '0006_batch_persona_and_own_doubts'), ('memories', '0007_admin_lists'), ('memories', '0008_batch_choice'), ('memories', '0009_memories_come_along'), ('memories', '0010_passages'), ('memories', '0011_vectors_leave_records'), ('memories', '0012_languages'), ('memories', '0013_conversations'), ('memories', '0014_limits'), ('memories', '0015_vector_index_is_trained'), ('memories', '0016_impressions'), ('memories', '0017_reworded_help_texts'), ('memories', '0018_hand_overs'), ('memories', '0019_batch_seen'), ('memories', '0020_detected_entities'), ('memories', '0021_row_level_security'), ('memories', '0022_feedback_counts'), ('memories', '0023_verifications'), ('memories', '0024_terms_by_reader'), ('memories', '0025_erasure_by_origin'), ('memories', '0026_origins_of_earlier_texts'), ('memories', '0027_persona_toolsets'), ('memories', '0028_source_keys'), ('memories', '0029_reports'), ('memories', '0030_validity'), ('memories', '0031_scopes'), ('memories', '0032_attachment'), ('memories', '0033_citations'), ('memories', '0034_scopes_spread_past_their_readers'), ('memories', '0035_unsettled_entities'), ('memories', '0036_leases'), ('memories', '0037_changes_of_term_counts'), ('memories', '0038_named_entities_settle')]

    initial = True

    dependencies = [
        ('memory_project', '__first__'),
    ]

    operations = [
        pgvector.django.extensions.VectorExtension(
        ),
        migrations.CreateModel(
            name='Lease',
            fields=[
                ('name', models.CharField(max_length=120, primary_key=True, serialize=False)),
                ('token', models.UUIDField(unique=True)),
                ('has_session', models.BooleanField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'leases',
            },
        ),
        migrations.CreateModel(
            name='LexemeChange',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('owner', models.CharField(max_length=254)),
                ('persona', models.CharField(max_length=60)),
                ('visibility', models.CharField(max_length=10)),
                ('search', django.contrib.postgres.search.SearchVectorField()),
                ('documents', models.SmallIntegerField(help_text='1 if the memory is added, -1 if it is removed.')),
            ],
            options={
                'db_table': 'memory_lexeme_changes',
            },
        ),
        migrations.CreateModel(
            name='Period',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='For example FY2026-Q3 or release-42. Memories refer to it, so it stays.', max_length=100, unique=True)),
                ('note', models.CharField(blank=True, max_length=500)),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('opened_by', models.CharField(max_length=254)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('ended_by', models.CharField(blank=True, max_length=254)),
            ],
            options={
                'verbose_name': 'period',
                'verbose_name_plural': 'periods',
                'db_table': 'memory_periods',
                'ordering': ['-opened_at', 'name'],
            },
        ),
        migrations.CreateModel(
            name='Persona',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Short and stable, because memories refer to it. Lower-case letters, digits, - and _.', max_length=60, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_-]*$', 'lower-case letters, digits, - and _ only')])),
                ('title', models.CharField(blank=True, help_text='The name shown to people, for example “Sales analytics”.', max_length=120)),
                ('description', models.TextField(blank=True)),
                ('tools_allow', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=foundation.people.models.all_tools, help_text='Tools that this persona may call, as patterns with *, comma-separated. Other tools are denied.', size=None)),
                ('tools_deny', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=100), blank=True, default=list, help_text='Exceptions to the allowed tools. A denial always wins. “memory_manage.erase” is one command.', size=None)),
                ('is_default', models.BooleanField(default=False, help_text='Assigned to users who have no other persona.')),
                ('memory_context', models.BooleanField(default=True, help_text='Attach memories about the mentioned entities to tool responses.', verbose_name='automatic context')),
                ('calls_per_minute', models.PositiveIntegerField(blank=True, help_text='Tool calls per person under this persona. Empty: no limit.', null=True)),
                ('writes_per_day', models.PositiveIntegerField(blank=True, help_text='Tool calls per person that write. Empty: no limit.', null=True)),
                ('toolsets', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), blank=True, default=list, help_text='Offered to agents that choose none. Empty: the setting MCP_TOOLSETS.', size=None)),
            ],
            options={
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Purpose',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Short and stable, because memories refer to it. Lower-case letters, digits, - and _.', max_length=60, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9_-]*$', 'lower-case letters, digits, - and _ only')])),
                ('title', models.CharField(blank=True, help_text='The name shown to people, for example “Board reporting”.', max_length=120)),
            ],
            options={
                'db_table': 'memory_purposes',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='Tombstone',
            fields=[
                ('record_id', models.UUIDField(primary_key=True, serialize=False)),
                ('created_by', models.CharField(max_length=254)),
                ('persona', models.CharField(max_length=60)),
                ('erased_by', models.CharField(max_length=254)),
                ('erased_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'memory_tombstones',
                'ordering': ['-erased_at'],
            },
        ),
        migrations.CreateModel(
            name='CitingDocument',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_by', models.CharField(max_length=254)),
                ('title', models.CharField(blank=True, default='', max_length=200)),
                ('address', models.CharField(help_text='Where it is: a URL, or other words.', max_length=500)),
                ('is_shared', models.BooleanField(default=False, help_text='Whether its title and address are shown to other people.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('registered_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('erased', models.PositiveIntegerField(default=0, help_text='Cited memories that were erased and that its author has yet to note.')),
                ('erased_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'verbose_name': 'citing document',
                'db_table': 'citing_documents',
                'ordering': ['-registered_at', 'id'],
                'constraints': [models.UniqueConstraint(fields=('created_by', 'address'), name='citing_document_once'), models.CheckConstraint(condition=models.Q(('address', ''), _negated=True), name='citing_document_has_address')],
            },
        ),
        migrations.CreateModel(
            name='HandOver',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('from_owner', models.CharField(max_length=254)),
                ('to_owner', models.CharField(max_length=254)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('moved', models.JSONField(default=dict, help_text='The ids of the moved rows, by kind.')),
                ('stays', models.JSONField(default=dict, help_text='The number of rows that could not be moved, by kind.')),
                ('undone_by', models.CharField(blank=True, max_length=254)),
                ('undone_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'hand_overs',
                'ordering': ['-at'],
                'indexes': [models.Index(fields=['from_owner', '-at'], name='hand_over_of_person')],
            },
        ),
        migrations.CreateModel(
            name='IndexJob',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('source_kind', models.CharField(help_text='The kind of row that the job works on, for example memory.', max_length=40)),
                ('source_id', models.UUIDField()),
                ('trigger_kind', models.CharField(choices=[('write', 'Write'), ('reconciler', 'Reconciler'), ('manual_retry', 'Manual Retry')], max_length=20)),
                ('status', models.CharField(choices=[('pending', 'Pending'), ('running', 'Running'), ('succeeded', 'Succeeded'), ('failed', 'Failed')], default='pending', max_length=10)),
                ('attempts', models.PositiveSmallIntegerField(default=0)),
                ('last_error', models.TextField(blank=True, default='')),
                ('next_run_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('worker_id', models.CharField(blank=True, default='', max_length=200)),
                ('lease_expires_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('completed_at', models.DateTimeField(blank=True, null=True)),
                ('resolved_at', models.DateTimeField(blank=True, help_text='When a failed job was resolved: by a later success, or by a person.', null=True)),
            ],
            options={
                'db_table': 'index_jobs',
                'ordering': ['-created_at'],
                'indexes': [models.Index(condition=models.Q(('status', 'pending')), fields=['next_run_at'], name='index_job_next'), models.Index(condition=models.Q(('status', 'running')), fields=['lease_expires_at'], name='index_job_leases'), models.Index(fields=['source_kind', 'source_id', '-created_at'], name='index_job_unit')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('status__in', ['pending', 'running'])), fields=('source_kind', 'source_id'), name='index_job_one_open_per_unit'), models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'running', 'succeeded', 'failed'])), name='index_job_status_known')],
            },
        ),
        migrations.CreateModel(
            name='Lexeme',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('lexeme', models.TextField()),
                ('owner', models.CharField(help_text='Owner of the private memories that are counted, or empty.', max_length=254)),
                ('persona', models.CharField(help_text='Persona with which the counted memories are shared, or empty. Both empty: everyone.', max_length=60)),
                ('rough', models.BooleanField(help_text='Whether this is the rough count of all shared memories.')),
                ('documents', models.PositiveIntegerField(help_text='Number of memories that contain the term.')),
                ('people', models.PositiveIntegerField(help_text='Of a rough count: how many people use the term at least.', null=True)),
            ],
            options={
                'db_table': 'memory_lexemes',
                'constraints': [models.UniqueConstraint(fields=('lexeme', 'owner', 'persona', 'rough'), name='lexeme_once_for_its_readers')],
            },
        ),
        migrations.CreateModel(
            name='MemoryRecord',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.CharField(help_text="The owner's e-mail address.", max_length=254)),
                ('persona', models.CharField(max_length=60)),
                ('visibility', models.CharField(choices=[('private', 'Private'), ('persona', 'Persona'), ('everyone', 'Everyone')], default='persona', max_length=10)),
                ('dimension', models.CharField(choices=[('knowledge', 'Knowledge'), ('event', 'Event'), ('entity', 'Entity'), ('relationship', 'Relationship'), ('preference', 'Preference')], default='knowledge', max_length=20)),
                ('category', models.CharField(choices=[('correction', 'Correction'), ('business_context', 'Business context'), ('data_quality', 'Data quality'), ('usage_guidance', 'Usage guidance'), ('relationship', 'Relationship'), ('enhancement', 'Enhancement'), ('general', 'General')], default='business_context', max_length=20)),
                ('confidence', models.CharField(choices=[('high', 'High'), ('medium', 'Medium'), ('low', 'Low')], default='medium', max_length=10)),
                ('source', models.CharField(choices=[('user', 'User'), ('agent_discovery', 'Agent discovery'), ('enrichment_gap', 'Enrichment gap'), ('automation', 'Automation'), ('lineage_event', 'Lineage event'), ('note', 'Note')], default='user', max_length=20)),
                ('content', models.TextField()),
                ('summary', models.TextField(blank=True, default='')),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=80), blank=True, default=list, size=None)),
                ('entity_urns', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, size=None)),
                ('related_columns', models.JSONField(blank=True, default=list)),
                ('metadata', models.JSONField(blank=True, default=dict)),
                ('content_key', models.GeneratedField(db_persist=True, expression=memories.models.fields.ContentKey('content'), output_field=models.CharField(max_length=32))),
                ('embedding_model', models.CharField(blank=True, default='', editable=False, max_length=200)),
                ('embedding_text_hash', models.BinaryField(null=True)),
                ('status', models.CharField(choices=[('active', 'Active'), ('stale', 'Stale'), ('superseded', 'Superseded'), ('archived', 'Archived')], default='active', max_length=12)),
                ('stale_reason', models.TextField(blank=True, default='')),
                ('stale_at', models.DateTimeField(blank=True, null=True)),
                ('last_verified_at', models.DateTimeField(blank=True, null=True)),
                ('superseded_by', models.UUIDField(blank=True, editable=False, null=True)),
                ('superseded_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('tier', models.CharField(blank=True, choices=[('', 'None'), ('stm', 'Short term'), ('ltm', 'Long term')], default='', max_length=3)),
                ('conversation_id', models.CharField(blank=True, default='', max_length=200)),
                ('role', models.CharField(blank=True, default='', help_text='The speaker of a turn: human or ai.', max_length=60)),
                ('thread_position', models.PositiveIntegerField(blank=True, null=True)),
                ('importance', models.FloatField(default=0.5)),
                ('access_count', models.PositiveIntegerField(default=0)),
                ('last_accessed_at', models.DateTimeField(blank=True, null=True)),
                ('enrichment_status', models.CharField(blank=True, default='', max_length=20)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('purge_after', models.DateTimeField(blank=True, null=True)),
                ('language', models.CharField(blank=True, default='', help_text='ISO 639-1 code from RECALL_LANGUAGES. Empty if it could not be detected.', max_length=3)),
                ('author', models.CharField(blank=True, default='', help_text="The speaker's name, if known.", max_length=80)),
                ('derived_from', models.UUIDField(blank=True, editable=False, help_text='The turn that a long-term memory was derived from.', null=True)),
                ('search', models.GeneratedField(db_persist=True, expression=memories.models.fields.LanguageSearchText('author', 'content', 'summary'), output_field=django.contrib.postgres.search.SearchVectorField())),
                ('detected_urns', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, editable=False, size=None)),
                ('dismissed_urns', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), blank=True, default=list, editable=False, size=None)),
                ('entities_detected_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('condition_ended_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('valid_from', models.DateTimeField(blank=True, null=True)),
                ('valid_until', models.DateTimeField(blank=True, null=True)),
                ('valid_while', models.CharField(blank=True, default='', help_text='incident:<URN>, deprecated:<URN> or period:<name>. Empty if there is no condition.', max_length=600)),
                ('scope', models.CharField(blank=True, default='', help_text='Where it holds: persona:NAME, domain:URN or purpose:NAME. Empty: everywhere.', max_length=520)),
                ('attachment', models.CharField(choices=[('automatic', 'Automatic'), ('always', 'Always'), ('never', 'Never')], default='automatic', max_length=10)),
                ('counted_from', models.DateTimeField(blank=True, editable=False, null=True)),
                ('quiet_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('unsettled', models.BooleanField(default=False, editable=False)),
                ('supersedes', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='successors', to='memories.memoryrecord')),
            ],
            options={
                'verbose_name': 'memory',
                'verbose_name_plural': 'memories',
                'db_table': 'memory_records',
                'ordering': ['-created_at', 'id'],
                'indexes': [models.Index(fields=['created_by', '-created_at'], name='memory_owner_newest'), models.Index(fields=['persona', 'visibility', '-created_at'], name='memory_persona_newest'), models.Index(condition=models.Q(('visibility', 'everyone')), fields=['-created_at'], name='memory_everyone_newest'), models.Index(fields=['-created_at', 'id'], name='memory_newest'), models.Index(fields=['created_by', 'persona', 'content_key'], name='memory_same_text'), models.Index(condition=models.Q(('status', 'stale')), fields=['stale_at'], name='memory_stale'), models.Index(models.OrderBy(models.F('last_verified_at'), nulls_first=True), condition=models.Q(('status', 'active')), name='memory_verify_next'), models.Index(fields=['embedding_model'], name='memory_vector_model'), models.Index(condition=models.Q(('conversation_id', ''), _negated=True), fields=['conversation_id', 'thread_position'], name='memory_thread'), models.Index(condition=models.Q(('expires_at__isnull', False)), fields=['expires_at'], name='memory_expiring'), models.Index(condition=models.Q(('purge_after__isnull', False)), fields=['purge_after'], name='memory_purging'), django.contrib.postgres.indexes.GinIndex(fields=['entity_urns'], name='memory_entities'), django.contrib.postgres.indexes.GinIndex(fields=['tags'], name='memory_tags'), models.Index(condition=models.Q(('status', 'active'), _negated=True), fields=['status', '-created_at'], name='memory_not_active'), models.Index(condition=models.Q(('embedding_text_hash__isnull', True), models.Q(('status', 'archived'), _negated=True)), fields=['id'], name='memory_no_vector'), django.contrib.postgres.indexes.GinIndex(fields=['search'], name='memory_words'), models.Index(condition=models.Q(('derived_from__isnull', False)), fields=['derived_from'], name='memory_derived'), models.Index(condition=models.Q(('tier', ''), _negated=True), fields=['created_by', 'tier', '-created_at'], name='memory_conversations'), django.contrib.postgres.indexes.GinIndex(fields=['detected_urns'], name='memory_detected'), models.Index(condition=models.Q(('entities_detected_at__isnull', True), models.Q(('status', 'archived'), _negated=True), models.Q(('tier', 'stm'), _negated=True)), fields=['id'], name='memory_undetected'), models.Index(condition=models.Q(('metadata__has_key', 'duplicate_of')), fields=['created_by'], name='memory_duplicates'), models.Index(models.F('created_by'), django.db.models.fields.json.KeyTransform('source_key', 'metadata'), condition=models.Q(('metadata__has_key', 'source_key')), name='memory_source_key'), models.Index(condition=models.Q(('valid_from__isnull', False), ('valid_until__isnull', False), ('condition_ended_at__isnull', False), _connector='OR'), fields=['valid_until'], name='memory_bounded'), models.Index(condition=models.Q(('valid_while', ''), _negated=True), fields=['valid_while'], name='memory_conditions'), models.Index(condition=models.Q(('quiet_at__isnull', False)), fields=['quiet_at'], name='memory_quiet'), models.Index(condition=models.Q(('unsettled', True)), fields=['created_by', '-created_at'], name='memory_unsettled'), models.Index(condition=models.Q(('tier', ''), _negated=True), fields=['-created_at'], name='memory_turns_newest')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['active', 'stale', 'superseded', 'archived'])), name='memory_status_known'), models.CheckConstraint(condition=models.Q(('visibility__in', ['private', 'persona', 'everyone'])), name='memory_visibility_known'), models.CheckConstraint(condition=models.Q(('dimension__in', ['knowledge', 'event', 'entity', 'relationship', 'preference'])), name='memory_dimension_known'), models.CheckConstraint(condition=models.Q(('category__in', ['correction', 'business_context', 'data_quality', 'usage_guidance', 'relationship', 'enhancement', 'general'])), name='memory_category_known'), models.CheckConstraint(condition=models.Q(('confidence__in', ['high', 'medium', 'low'])), name='memory_confidence_known'), models.CheckConstraint(condition=models.Q(('tier__in', ['', 'stm', 'ltm'])), name='memory_tier_known'), models.CheckConstraint(condition=models.Q(('created_by', ''), _negated=True), name='memory_has_owner'), models.CheckConstraint(condition=models.Q(('content', ''), _negated=True), name='memory_has_content'), models.CheckConstraint(condition=models.Q(('importance__gte', 0), ('importance__lte', 1)), name='memory_importance_in_unit_range'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'stale'), _negated=True), models.Q(('stale_at__isnull', False), models.Q(('stale_reason', ''), _negated=True)), _connector='OR'), name='memory_stale_has_reason'), models.CheckConstraint(condition=models.Q(models.Q(('status', 'superseded'), _negated=True), models.Q(('superseded_at__isnull', False), ('superseded_by__isnull', False)), _connector='OR'), name='memory_superseded_has_successor'), models.CheckConstraint(condition=models.Q(('supersedes__isnull', True), models.Q(('supersedes', models.F('id')), _negated=True), _connector='OR'), name='memory_not_its_own_successor'), models.UniqueConstraint(condition=models.Q(('status', 'archived'), _negated=True), fields=('supersedes',), name='memory_one_living_successor'), models.CheckConstraint(condition=models.Q(('tier', ''), models.Q(('conversation_id', ''), _negated=True), _connector='OR'), name='memory_turn_has_conversation'), models.CheckConstraint(condition=models.Q(('source__in', ['user', 'agent_discovery', 'enrichment_gap', 'automation', 'lineage_event', 'note'])), name='memory_source_known'), models.CheckConstraint(condition=models.Q(('valid_from__isnull', True), ('valid_until__isnull', True), ('valid_until__gt', models.F('valid_from')), _connector='OR'), name='memory_valid_until_after_from'), models.CheckConstraint(condition=models.Q(('condition_ended_at__isnull', True), models.Q(('valid_while', ''), _negated=True), _connector='OR'), name='memory_ended_condition_is_known'), models.CheckConstraint(condition=models.Q(('attachment__in', ['automatic', 'always', 'never'])), name='memory_attachment_known')],
            },
        ),
        migrations.CreateModel(
            name='Impression',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('connection', models.CharField(help_text='The token, or the stdio process.', max_length=120)),
                ('to', models.CharField(max_length=254)),
                ('tool', models.CharField(max_length=100)),
                ('version', models.CharField(help_text="Hash of the memory's text and status at that time.", max_length=16)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('terms', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='Keyed hashes of the memory’s words that the call did not have. NULL: not counted.', null=True, size=None)),
                ('used_at', models.DateTimeField(help_text='When a later call on the connection first had one of these words.', null=True)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='impressions', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_showings',
                'ordering': ['-at'],
                'indexes': [models.Index(fields=['connection', '-at'], name='showing_on_connection'), models.Index(fields=['record', '-at'], name='showing_of_record'), models.Index(fields=['at'], name='showing_old')],
            },
        ),
        migrations.CreateModel(
            name='Feedback',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('by', models.CharField(max_length=254)),
                ('verdict', models.CharField(choices=[('useful', 'Useful'), ('wrong', 'Wrong')], max_length=10)),
                ('note', models.TextField(blank=True)),
                ('made_stale', models.TextField(blank=True, help_text='The stale reason that this verdict set, if it made the memory stale.')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('counts', models.BooleanField(default=False, help_text="Whether it counts for other readers: its author held the memory's persona or was a curator.")),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='feedback', to='memories.memoryrecord')),
            ],
            options={
                'verbose_name_plural': 'feedback',
                'db_table': 'memory_feedback',
                'ordering': ['-at'],
                'indexes': [models.Index(condition=models.Q(('verdict', 'wrong')), fields=['by', 'record'], name='feedback_wrong_for_reader'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('note', config='simple'), name='feedback_words')],
                'constraints': [models.UniqueConstraint(fields=('record', 'by'), name='feedback_once_a_reader'), models.CheckConstraint(condition=models.Q(('verdict__in', ['useful', 'wrong'])), name='feedback_verdict_known')],
            },
        ),
        migrations.CreateModel(
            name='Citation',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('cited_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('content_key', models.CharField(help_text='The key of the text that is cited.', max_length=32)),
                ('reason', models.CharField(blank=True, choices=[('', 'Current'), ('superseded', 'Corrected'), ('stale', 'May no longer be true'), ('archived', 'Archived'), ('edited', 'Reworded'), ('rolled_back', 'Rolled back'), ('invalid', 'No longer valid')], default='', max_length=12)),
                ('other_reason', models.CharField(blank=True, choices=[('', 'Current'), ('superseded', 'Corrected'), ('stale', 'May no longer be true'), ('archived', 'Archived'), ('edited', 'Reworded'), ('rolled_back', 'Rolled back'), ('invalid', 'No longer valid')], default='', help_text='A reason that neither the status nor the text of the memory shows.', max_length=12)),
                ('outdated_at', models.DateTimeField(blank=True, null=True)),
                ('acknowledged_at', models.DateTimeField(blank=True, null=True)),
                ('document', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='citations', to='memories.citingdocument')),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='citations', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_citations',
                'ordering': ['document', 'id'],
                'indexes': [models.Index(condition=models.Q(models.Q(('reason', ''), _negated=True), ('acknowledged_at', None)), fields=['document'], name='citation_open')],
                'constraints': [models.UniqueConstraint(fields=('document', 'record'), name='citation_once'), models.CheckConstraint(condition=models.Q(('other_reason__in', ('', 'rolled_back', 'invalid')), ('reason__in', ['', 'superseded', 'stale', 'archived', 'edited', 'rolled_back', 'invalid'])), name='citation_reason_known'), models.CheckConstraint(condition=models.Q(models.Q(('reason', ''), ('outdated_at', None), ('acknowledged_at', None)), models.Q(models.Q(('reason', ''), _negated=True), ('outdated_at__isnull', False)), _connector='OR'), name='citation_outdated_has_reason')],
            },
        ),
        migrations.CreateModel(
            name='ConversationMemory',
            fields=[
            ],
            options={
                'verbose_name': 'conversation memory',
                'verbose_name_plural': 'conversation memories',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('memories.memoryrecord',),
        ),
        migrations.CreateModel(
            name='Correction',
            fields=[
            ],
            options={
                'verbose_name': 'correction',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('memories.memoryrecord',),
        ),
        migrations.CreateModel(
            name='StaleMemory',
            fields=[
            ],
            options={
                'verbose_name': 'stale memory',
                'verbose_name_plural': 'stale memories',
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('memories.memoryrecord',),
        ),
        migrations.CreateModel(
            name='MemoryRevision',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('valid_from', models.DateTimeField()),
                ('valid_to', models.DateTimeField(default=django.utils.timezone.now)),
                ('content', models.TextField()),
                ('status', models.CharField(max_length=12)),
                ('visibility', models.CharField(max_length=10)),
                ('details', models.JSONField(default=dict, help_text='Earlier values of the other columns that the change touched.')),
                ('change', models.CharField(help_text='The change that ended this state: revise, supersede, forget, …', max_length=20)),
                ('changed_by', models.CharField(max_length=254)),
                ('reason', models.TextField(blank=True, default='')),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='revisions', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_revisions',
                'ordering': ['record_id', '-valid_to', '-id'],
                'indexes': [models.Index(fields=['record', 'valid_to'], name='revision_in_force'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('content', config='simple'), name='revision_words'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('reason', config='simple'), name='revision_reason_words')],
            },
        ),
        migrations.CreateModel(
            name='Passage',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('start', models.PositiveSmallIntegerField()),
                ('stop', models.PositiveSmallIntegerField()),
                ('vector', memories.models.fields.EmbeddingField()),
                ('token_bits', models.BinaryField(help_text="The signs of each word piece's hidden state, if the model returns them.", null=True)),
                ('short_term', models.BooleanField(default=False, help_text='Belongs to a turn that expires, so it is not in the vector index.')),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('record', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_passages',
                'ordering': ['record', 'start'],
                'constraints': [models.UniqueConstraint(fields=('record', 'start'), name='passage_once')],
            },
        ),
        migrations.CreateModel(
            name='PersonaMembership',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('is_default', models.BooleanField(default=False, help_text='Active on connections that name no persona.')),
                ('persona', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='memberships', to='memories.persona')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ['persona__name'],
                'constraints': [models.UniqueConstraint(fields=('user', 'persona'), name='one_membership_per_persona'), models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('user',), name='one_default_persona_per_person')],
            },
        ),
        migrations.AddField(
            model_name='persona',
            name='members',
            field=models.ManyToManyField(related_name='personas', through='memories.PersonaMembership', to=settings.AUTH_USER_MODEL),
        ),
        migrations.CreateModel(
            name='Quotation',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('place', models.CharField(help_text='Name of the TextPlace that has the other row.', max_length=40)),
                ('row', models.CharField(help_text='Primary key of the other row.', max_length=500)),
                ('is_whole', models.BooleanField(default=False, help_text='The whole text derives from the memory, so that it goes as a whole.')),
                ('record', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='quotations', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_quotations',
                'constraints': [models.UniqueConstraint(fields=('record', 'place', 'row'), name='quotation_once')],
            },
        ),
        migrations.CreateModel(
            name='Report',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('by', models.CharField(max_length=254)),
                ('verdict', models.CharField(choices=[('used', 'Used'), ('wrong', 'Wrong'), ('outdated', 'Outdated')], max_length=10)),
                ('note', models.TextField(blank=True)),
                ('day', models.DateField(help_text='The day in UTC. A person makes each report once a day.')),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('content_key', models.CharField(help_text='The key of the text that the report is about.', max_length=32)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reports', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_reports',
                'ordering': ['-at', '-id'],
                'indexes': [models.Index(fields=['by', 'day'], name='report_of_person'), models.Index(fields=['verdict', 'at'], name='report_newest'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('note', config='simple'), name='report_words')],
                'constraints': [models.UniqueConstraint(fields=('record', 'by', 'verdict', 'day'), name='report_once_a_day'), models.CheckConstraint(condition=models.Q(('verdict__in', ['used', 'wrong', 'outdated'])), name='report_verdict_known')],
            },
        ),
        migrations.CreateModel(
            name='SameWords',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('place', models.CharField(max_length=40)),
                ('row', models.CharField(help_text='Primary key of the row with the same words.', max_length=500)),
                ('version', models.CharField(help_text="Keyed hash of the row's text when it was found.", max_length=16)),
                ('found_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('decision', models.CharField(choices=[('open', 'Open'), ('erased', 'Erased, too'), ('left', 'Left')], default='open', max_length=10)),
                ('decided_by', models.CharField(blank=True, max_length=254)),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('tombstone', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='same_words', to='memories.tombstone')),
            ],
            options={
                'verbose_name': 'text with the same words',
                'verbose_name_plural': 'texts with the same words',
                'db_table': 'memory_same_words',
                'ordering': ['-found_at', 'place', 'row'],
                'indexes': [models.Index(condition=models.Q(('decision', 'open')), fields=['place', 'row'], name='same_words_open')],
                'constraints': [models.UniqueConstraint(fields=('tombstone', 'place', 'row'), name='same_words_once'), models.CheckConstraint(condition=models.Q(('decision__in', ['open', 'erased', 'left'])), name='same_words_decision_known')],
            },
        ),
        migrations.CreateModel(
            name='Verification',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('by', models.CharField(max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('version', models.CharField(help_text='The version that was verified, see version_of.', max_length=64)),
                ('is_own', models.BooleanField(help_text='Whether the person owned the memory or had written its text.')),
                ('detected_urns', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=500), default=list, help_text='Entities that were detected in the text by then. Those detected later are not verified.', size=None)),
                ('owner', models.CharField(default='', editable=False, max_length=254)),
                ('persona', models.CharField(default='', editable=False, max_length=60)),
                ('visibility', models.CharField(default='', editable=False, max_length=10)),
                ('record', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='verifications', to='memories.memoryrecord')),
            ],
            options={
                'db_table': 'memory_verifications',
                'ordering': ['-at', '-id'],
            },
        ),
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.CharField(max_length=254)),
                ('act', models.CharField(max_length=40)),
                ('note', models.TextField(blank=True)),
                ('unit_ids', django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ('outcomes', models.JSONField(default=list, help_text="In the order of unit_ids: '' if done, otherwise the error.")),
                ('back_to', models.CharField(blank=True, help_text='The page where it was started.', max_length=500)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('persona', models.CharField(blank=True, help_text='The persona active when the batch was started.', max_length=60)),
                ('choice', models.TextField(blank=True, help_text='The choice made for the action: a colleague, a persona, a visibility or a text.')),
                ('seen', models.JSONField(default=dict, help_text='By id of the row: a token for the state that the person saw.')),
                ('undoes', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='undone_by', to='memories.batch')),
            ],
            options={
                'verbose_name_plural': 'batches',
                'db_table': 'batches',
                'ordering': ['-created_at'],
                'indexes': [models.Index(fields=['created_by', '-created_at'], name='batch_of_person'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('note', config='simple'), name='batch_note_words'), django.contrib.postgres.indexes.GinIndex(django.contrib.postgres.search.SearchVector('choice', config='simple'), name='batch_choice_words')],
            },
        ),
        migrations.AddConstraint(
            model_name='persona',
            constraint=models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('is_default',), name='one_default_persona'),
        ),
        migrations.RunPython(create_default_persona, migrations.RunPython.noop),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.RunSQL(policies.SCOPE_FUNCTIONS + PAST_READERS, policies.NO_SCOPE_FUNCTIONS),
        *(migrations.RunSQL(policies.copy_scope(table), policies.no_copy_scope(table)) for table in COPIES),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
