"""Notifications, audit, tokens and connected apps, single sign-on, and what several machines share."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from foundation.database import policies

TABLES = {  # table → columns whose changes do not matter, because they are written all the time
    "memory_project_user": "last_login",
    "memory_project_user_groups": "",
    "memory_project_user_user_permissions": "",
    "memory_project_apitoken": "last_used_at",
    "connected_apps": "last_used_at",
    "oauth2_provider_accesstoken": "",
    "oauth2_provider_refreshtoken": "",
    "auth_permission": "",
    "auth_group_permissions": "",
    "memories_persona": "",
    "memories_personamembership": "",
}
FUNCTION = """
    CREATE FUNCTION tell_access_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'UPDATE' THEN
            IF to_jsonb(OLD) - TG_ARGV[0] = to_jsonb(NEW) - TG_ARGV[0] THEN
                RETURN NULL;
            END IF;
        END IF;
        PERFORM pg_notify('caller_access', '');
        RETURN NULL;
    END $$;"""
TRIGGERS = "".join(
    f"""
    CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE ON {table}
        FOR EACH ROW EXECUTE FUNCTION tell_access_changed('{column}');
    CREATE TRIGGER access_emptied AFTER TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION tell_access_changed();"""
    for table, column in TABLES.items()
)
DROPPED = "".join(
    f"DROP TRIGGER access_changed ON {table}; DROP TRIGGER access_emptied ON {table};" for table in TABLES
)
MY_ID = f"(SELECT id FROM memory_project_user WHERE email = {policies.EMAIL})"
# table → its policies
PROTECTED = {
    "notifications": policies.protect("notifications", read=f"(person_id = {MY_ID})"),
    "saved_views": policies.protect("saved_views", read=f"(person_id = {MY_ID})"),
    "mfa_authenticator": policies.protect("mfa_authenticator", read=f"(user_id = {MY_ID})"),
    "company_identities": policies.protect("company_identities", read=f"(person_id = {MY_ID})", write="false"),  # by a sign-in and admins
}


class Migration(migrations.Migration):

    replaces = [('memory_project', '0003_inbox'), ('memory_project', '0004_memories_come_along'), ('memory_project', '0005_limits'), ('memory_project', '0006_graph'), ('memory_project', '0007_audit_channel'), ('memory_project', '0008_reworded_help_texts'), ('memory_project', '0009_row_level_security'), ('memory_project', '0010_audit_events_of_deletions'), ('memory_project', '0011_connected_apps'), ('memory_project', '0012_single_sign_on'), ('memory_project', '0013_row_security_of_sign_in'), ('memory_project', '0014_language_of_pages'), ('memory_project', '0015_mails_about_notifications'), ('memory_project', '0016_recalls_without_hits'), ('memory_project', '0017_machines'), ('memory_project', '0018_changes_of_access'), ('memory_project', '0020_trace_ids')]

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('memories', '0035_unsettled_entities'),
        ('memory_project', '0002_session_generation'),
        ('mfa', '0003_authenticator_type_uniq'),
        ('oauth2_provider', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='CacheEntry',
            fields=[
                ('key', models.CharField(max_length=300, primary_key=True, serialize=False)),
                ('value', models.JSONField()),
                ('expires_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'cache_entries',
                'indexes': [models.Index(fields=['expires_at'], name='cache_entries_expire')],
            },
        ),
        migrations.CreateModel(
            name='CallWindow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=200)),
                ('starts_at', models.DateTimeField()),
                ('count', models.PositiveIntegerField(default=0)),
            ],
            options={
                'db_table': 'call_windows',
                'constraints': [models.UniqueConstraint(fields=('key', 'starts_at'), name='call_window_once')],
            },
        ),
        migrations.CreateModel(
            name='CompanyGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='Exactly as the issuer sends it in the groups claim. Microsoft Entra sends the id of a group.', max_length=255, unique=True)),
                ('is_curator', models.BooleanField(default=False, help_text='Members review and apply insights.', verbose_name='curators')),
                ('is_operator', models.BooleanField(default=False, help_text='Members manage sources, webhooks and the index.', verbose_name='operators')),
                ('is_admin', models.BooleanField(default=False, help_text='Members may do everything, as you may.', verbose_name='admins')),
            ],
            options={
                'verbose_name': 'group of the company',
                'verbose_name_plural': 'groups of the company',
                'db_table': 'company_groups',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='CompanyIdentity',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('issuer', models.CharField(max_length=500)),
                ('subject', models.CharField(help_text="The issuer's id of the person (the claim “sub”).", max_length=255)),
                ('personas', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), blank=True, default=list, size=None)),
                ('rights', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=20), blank=True, default=list, size=None)),
                ('is_admin', models.BooleanField(default=False)),
                ('linked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('ended_at', models.DateTimeField(blank=True, help_text='When the account was deactivated because the groups no longer allow it.', null=True)),
            ],
            options={
                'verbose_name': 'company identity',
                'verbose_name_plural': 'company identities',
                'db_table': 'company_identities',
            },
        ),
        migrations.CreateModel(
            name='ConnectedApp',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, help_text="The application's own claim.", max_length=255)),
                ('address', models.CharField(help_text='The host that the code was sent to.', max_length=255)),
                ('persona', models.CharField(blank=True, help_text="Empty: the person's default.", max_length=60)),
                ('toolsets', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=40), blank=True, default=list, help_text='Empty: all.', size=None)),
                ('read_only', models.BooleanField(default=False)),
                ('code_digest', models.CharField(editable=False, max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('code_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('expires_at', models.DateTimeField()),
                ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'db_table': 'connected_apps',
                'ordering': ['-created_at'],
            },
        ),
        migrations.CreateModel(
            name='InstallationFact',
            fields=[
                ('name', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('value', models.TextField()),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'installation_facts',
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('record_id', models.UUIDField()),
                ('by', models.CharField(blank=True, max_length=254)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('mail_at', models.DateTimeField(blank=True, help_text='When a mail is due; empty: none is due.', null=True)),
                ('mailed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'db_table': 'notifications',
                'ordering': ['-at'],
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('page', models.CharField(help_text='The list that the view belongs to.', max_length=60)),
                ('query', models.CharField(help_text='The filters, as in the URL.', max_length=2000)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'saved_views',
                'ordering': ['name'],
            },
        ),
        migrations.CreateModel(
            name='ServiceAccount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.CharField(help_text="The claim sub of the service's tokens.", max_length=255, unique=True)),
                ('persona', models.CharField(blank=True, help_text="Empty: the person's default.", max_length=60)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'db_table': 'service_accounts',
                'ordering': ['subject'],
            },
        ),
        migrations.CreateModel(
            name='UnreadableTask',
            fields=[
                ('task', models.BigIntegerField(primary_key=True, serialize=False)),
                ('reason', models.CharField(max_length=300)),
                ('host', models.CharField(max_length=100)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'db_table': 'unreadable_tasks',
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('url', models.CharField(max_length=500)),
                ('is_on', models.BooleanField(default=True, verbose_name='on')),
                ('last_counts', models.JSONField(default=dict, editable=False, help_text='The counts that were last sent.')),
                ('sent_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('tried_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_error', models.CharField(blank=True, editable=False, max_length=500)),
            ],
            options={
                'db_table': 'webhooks',
                'ordering': ['persona__name'],
            },
        ),
        migrations.AlterModelOptions(
            name='user',
            options={'ordering': ['email'], 'permissions': [('operate', 'Can manage sources, webhooks, the index and background work')], 'verbose_name': 'person', 'verbose_name_plural': 'people'},
        ),
        migrations.RemoveField(
            model_name='auditevent',
            name='door',
        ),
        migrations.AddField(
            model_name='apitoken',
            name='calls_per_minute',
            field=models.PositiveIntegerField(blank=True, help_text='Empty: no limit.', null=True),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='graph',
            field=models.CharField(blank=True, help_text="The persona whose knowledge graph it uses. Empty: the person's own graph.", max_length=60),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='writes_per_day',
            field=models.PositiveIntegerField(blank=True, help_text='Empty: no limit.', null=True),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='channel',
            field=models.CharField(db_column='door', default=None, max_length=20),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='auditevent',
            name='context_count',
            field=models.PositiveIntegerField(default=0, help_text='Memories attached to the response.'),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='context_ms',
            field=models.FloatField(default=0, help_text='Milliseconds spent on automatic context.'),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='hits',
            field=models.PositiveIntegerField(blank=True, help_text='Memories that a recall found; empty for other calls.', null=True),
        ),
        migrations.AddField(
            model_name='auditevent',
            name='trace_id',
            field=models.CharField(blank=True, db_default='', default='', help_text="Finds the request in traces and in the server's log.", max_length=64),
        ),
        migrations.AddField(
            model_name='user',
            name='language',
            field=models.CharField(blank=True, choices=[('en', 'English'), ('de', 'Deutsch'), ('es', 'Español')], help_text="Empty: the browser's language.", max_length=8),
        ),
        migrations.AddField(
            model_name='user',
            name='notify',
            field=models.JSONField(blank=True, default=dict, editable=False, help_text='Kind of notification → portal, mail or none.'),
        ),
        migrations.AddField(
            model_name='user',
            name='time_zone',
            field=models.CharField(blank=True, help_text="Empty: the browser's time zone.", max_length=64),
        ),
        migrations.AlterField(
            model_name='apitoken',
            name='persona',
            field=models.CharField(blank=True, help_text="The active persona of its connections. Empty: the person's default.", max_length=60),
        ),
        migrations.AlterField(
            model_name='apitoken',
            name='prefix',
            field=models.CharField(editable=False, help_text='The first characters, to recognize the token.', max_length=12),
        ),
        migrations.AlterField(
            model_name='auditevent',
            name='record_ids',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), default=list, help_text='Memories named in the call or its response.', size=None),
        ),
        migrations.AlterField(
            model_name='user',
            name='email',
            field=models.EmailField(help_text="The owner of this person's memories. Change it with manage.py rekey_owner.", max_length=254, unique=True),
        ),
        migrations.AlterField(
            model_name='user',
            name='is_active',
            field=models.BooleanField(default=True, help_text='Deactivate accounts instead of deleting them.', verbose_name='active'),
        ),
        migrations.AlterField(
            model_name='user',
            name='session_generation',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Incremented to end all sessions of this person.'),
        ),
        migrations.AddIndex(
            model_name='auditevent',
            index=models.Index(condition=models.Q(('hits', 0)), fields=['-at'], name='audit_without_hits'),
        ),
        migrations.AddField(
            model_name='companygroup',
            name='personas',
            field=models.ManyToManyField(blank=True, help_text='Members get these personas.', related_name='company_groups', to='memories.persona'),
        ),
        migrations.AddField(
            model_name='companyidentity',
            name='person',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='company_identity', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='connectedapp',
            name='application',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.OAUTH2_PROVIDER_APPLICATION_MODEL),
        ),
        migrations.AddField(
            model_name='connectedapp',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='connected_apps', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='notification',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='savedview',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='saved_views', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='serviceaccount',
            name='person',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='service_accounts', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='webhook',
            name='persona',
            field=models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='webhook', to='memories.persona'),
        ),
        migrations.AddConstraint(
            model_name='companyidentity',
            constraint=models.UniqueConstraint(fields=('issuer', 'subject'), name='company_identity_once'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['person', '-at'], name='notification_of_person'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('read_at', None)), fields=['person'], name='notification_unread'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['record_id'], name='notification_about'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('mail_at__isnull', False)), fields=['mail_at'], name='notification_mail_due'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('person', 'name'), name='saved_view_name_once_a_person'),
        ),
        *(migrations.RunSQL(sql, policies.unprotect(table)) for table, sql in PROTECTED.items()),
        # a restart of a crashed server may empty the table, and writing to it costs no write-ahead log
        migrations.RunSQL('ALTER TABLE cache_entries SET UNLOGGED', migrations.RunSQL.noop),
        migrations.RunSQL(FUNCTION + TRIGGERS, DROPPED + "DROP FUNCTION tell_access_changed();"),
    ]
