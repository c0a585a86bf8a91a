"""PostgreSQL itself restricts who reads and changes a row, even if a query forgets its scope."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.admin import site
from django.contrib.postgres.search import SearchVectorField
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import (
    BooleanField,
    CharField,
    DateField,
    DateTimeField,
    Field,
    ForeignKey,
    JSONField,
    Model,
    Q,
    TextField,
)
from django.db.transaction import atomic
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from mcp import Client as McpClient
from pgvector.django import VectorField

from foundation.database import identity, prepared_statements
from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from memories import services
from memories.models import (
    ConversationMemory,
    Correction,
    MemoryRecord,
    MemoryRevision,
    Passage,
    StaleMemory,
    Visibility,
)
from memories.operations import Remember, Revise, Share
from memories.writing.seen import memory_versions
from memories.writing.undo import undo
from memory_project.mcp.server import build_server
from memory_project.models import User
from memory_project.operating.doctor import database, facts
from memory_project.operating.postgres.server import APPLICATION

pytestmark = pytest.mark.skipif(bool(settings.DATABASE_URL), reason="the embedded server’s roles")
ROOT = Path(__file__).resolve().parents[2]

PROTECTED = {
    "memory_records", "memory_revisions", "memory_passages", "memory_feedback", "memory_verifications",
    "memory_reports", "citing_documents", "memory_citations",
    "memory_lexemes", "memory_lexeme_changes", "idempotent_answers", "imports", "import_rows",
    "webhook_endpoints", "webhook_events", "webhook_deliveries",
    "insights", "insight_decisions", "suggestions", "contradictions", "settlements", "caveat_waivers",
    "analysis_sessions", "ingested_records", "analysis_memories", "analysis_passages", "analysis_ingests",
    "analysis_actions", "analysis_action_items", "memory_checks",
    "conversation_cache", "conversation_cache_use", "conversation_decisions", "conversation_decision_changes",
    "conversation_merges", "conversation_wipe_requests",
    "graphs", "graph_entities", "graph_observations", "graph_observation_moves", "graph_passages", "graph_relations",
    "graph_reflections", "graph_access_days", "graph_co_occurrences", "graph_upkeep_proposals",
    "notifications", "saved_views", "preferences", "mfa_authenticator", "company_identities", "exports",
    "subscriptions", "subscription_items", "subscription_runs", "submissions", "default_views",
    "gateway_credentials", "gateway_sign_ins", "entity_uses", "entity_debts", "interview_questions",
}  # fmt: skip
# Tables without policies, and why. A new table must be in one of the two lists.
OPEN = {
    "assignment_rules": "settings", "memory_project_user": "accounts",
    "memory_project_apitoken": "found by its digest, before there is an identity",
    "connected_apps": "found by its tokens, before there is an identity; no texts but the client's name",
    "service_accounts": "settings, read before there is an identity",
    "memory_project_auditevent": "written for refused calls, too; pages show it to admins only",
    "installation_facts": "settings", "unreadable_tasks": "ids of queued tasks",
    "cache_entries": "counters of attempts, read before there is an identity",
    "call_windows": "counters", "webhooks": "settings of personas", "memories_persona": "settings",
    "memory_periods": "settings",
    "memory_purposes": "settings",
    "memories_personamembership": "accounts", "entity_baselines": "states of the catalog", "catalog_aspects": "catalog",
    "catalog_entities": "catalog", "catalog_texts": "catalog", "catalog_passages": "catalog",
    "catalog_lineage": "catalog", "catalog_column_lineage": "catalog",
    "catalog_cursors": "states of the catalog", "changesets": "writes to the catalog",
    "changes": "writes to the catalog", "approval_rules": "settings",
    "changeset_approvals": "writes to the catalog", "entity_states": "states of the catalog",
    "contradiction_scans": "ids of rows",
    "failed_calls": "kept for minutes and found by the connection", "analysis_sources": "settings",
    "analysis_source_checks": "states of sources", "batches": "ids of rows", "hand_overs": "ids of rows",
    "memory_showings": "ids and counts", "index_jobs": "ids of rows",
    "jobs": "ids of rows", "leases": "ids of rows",
    "memory_tombstones": "ids of erased memories", "memory_quotations": "ids of rows",
    "memory_same_words": "ids of rows, and keyed hashes", "company_groups": "settings",
    "account_emailaddress": "stays empty", "account_emailconfirmation": "stays empty",
    "backups": "paths and times of files", "erased_memories": "ids of erased memories",
    "examinations": "states of other systems",
    "schedule_settings": "settings", "gateway_upstreams": "settings", "gateway_pins": "texts of other servers",
    "gateway_decisions": "decisions about texts of other servers", "gateway_status": "states of other servers",
    "socialaccount_socialaccount": "stays empty", "socialaccount_socialapp": "stays empty",
    "socialaccount_socialtoken": "stays empty", "replica_positions": "numbers",
    "replica_barriers": "ids of transactions",
}  # fmt: skip


def own_tables() -> set[str]:
    packages = ("foundation", "memories", "knowledge", "analysis", "memory_project", "allauth")
    models = [model for model in apps.get_models() if model.__module__.partition(".")[0] in packages]
    return {model._meta.db_table for model in models}


def test_every_table_is_protected_or_has_a_reason_not_to_be(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname::text FROM pg_class WHERE relrowsecurity AND relforcerowsecurity")
        protected = {table for (table,) in cursor.fetchall()}
    assert protected == PROTECTED
    assert own_tables() == PROTECTED | set(OPEN)


# -- a row in each table -------------------------------------------------------------------------------------


NUMBERS = count(1)  # for columns that must be unique


def value_for(field: Field[Any, Any], owner: User, made: Mapping[type[Model], Model]) -> Any:
    """Return any value that the column accepts; columns that name an owner get the owner."""
    if isinstance(field, ForeignKey):
        return owner if issubclass(field.related_model, User) else made.get(field.related_model)
    if field.name in ("created_by", "owner"):
        return owner.email
    if isinstance(field, CharField | TextField):
        if field.name == "persona":
            return "sales"
        return field.choices[0][0] if field.choices else f"x{next(NUMBERS)}"
    if isinstance(field, SearchVectorField):
        return ""
    if isinstance(field, VectorField):
        return [0.0] * settings.EMBEDDING_DIMENSIONS
    if isinstance(field, DateField):
        return timezone.now() if isinstance(field, DateTimeField) else timezone.now().date()
    if isinstance(field, BooleanField):
        return False
    return {} if isinstance(field, JSONField) else next(NUMBERS)


def make_row(model: type[Model], owner: User, made: Mapping[type[Model], Model]) -> Model:
    """Insert a row with a value in each column without a default. `made` contains the rows it may refer to."""
    values = {
        field.name: value_for(field, owner, made)
        for field in model._meta.concrete_fields
        if (
            not (field.has_default() or field.null or (field.primary_key and not isinstance(field, ForeignKey)))
            and not field.generated
        )
        or field.name in ("created_by", "owner", "persona")
    }
    if "visibility" in {field.name for field in model._meta.concrete_fields}:
        values["visibility"] = Visibility.PRIVATE
    if isinstance(values.get("target"), MemoryRecord):  # a merge joins two memories
        values["target"] = make_row(MemoryRecord, owner, made)
    if "second" in values:  # a pair of entities is in the order of their ids
        pair = [values["first"], make_row(type(values["first"]), owner, made)]
        values["first"], values["second"] = sorted(pair, key=lambda entity: entity.pk)
    row = model(**values)
    row.save(force_insert=True)
    return row


def parents_first(models: Iterable[type[Model]]) -> list[type[Model]]:
    graph = {
        model: {field.related_model for field in model._meta.concrete_fields if isinstance(field, ForeignKey)} - {model}
        for model in models
    }
    return [model for model in TopologicalSorter(graph).static_order() if model in graph]


MODELS = {
    model._meta.db_table: model
    for model in apps.get_models()
    if model._meta.db_table in PROTECTED and not model._meta.proxy
}


@pytest.fixture
def rows(alice_user: User) -> dict[str, Model]:
    """A private row of Alice in each protected table, by the name of the table."""
    made: dict[type[Model], Model] = {}
    for model in parents_first(MODELS.values()):
        made[model] = make_row(model, alice_user, made)
    return {model._meta.db_table: row for model, row in made.items()}


def rows_in(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - a name from PROTECTED
        return int(cursor.fetchone()[0])


@pytest.mark.parametrize("table", sorted(PROTECTED))
def test_a_query_without_a_scope_finds_no_row_of_somebody_else(
    table: str, rows: dict[str, Model], alice: Caller, olga: Caller, ada: Caller
) -> None:
    model, pk = MODELS[table], rows[table].pk
    with identity.acting_as(alice):
        assert model._default_manager.filter(pk=pk).exists()
    with identity.acting_as(olga):
        assert rows_in(table) == 0
        assert model._default_manager.update(**unchanged(rows[table])) == 0
        assert model._default_manager.filter(pk=pk)._raw_delete("default") == 0
    with identity.acting_as(ada):
        assert model._default_manager.filter(pk=pk).exists()
    assert parameter() == ""
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {APPLICATION}")
        assert rows_in(table) == 0  # without an identity
        cursor.execute("RESET ROLE")


def unchanged(row: Model) -> dict[str, Any]:
    field = next(field for field in row._meta.concrete_fields if not field.primary_key and not field.generated)
    return {field.attname: getattr(row, field.attname)}


@pytest.mark.parametrize("table", sorted(PROTECTED))
def test_nobody_inserts_a_row_for_somebody_else(
    table: str, rows: dict[str, Model], alice_user: User, olga: Caller
) -> None:
    made = {type(row): row for row in rows.values()}
    with identity.acting_as(olga), pytest.raises(DatabaseError, match=r"row-level security|null value"), atomic():
        make_row(MODELS[table], alice_user, made)


NARROWER = {StaleMemory, Correction, ConversationMemory}  # lists that the memory of the fixture is not in


@pytest.mark.parametrize("kind", [kind for kind in site._registry if kind._meta.db_table in PROTECTED])
def test_an_admin_sees_the_rows_in_the_admin(
    kind: type[Model], rows: dict[str, Model], ada_user: User, client: Client
) -> None:
    client.force_login(ada_user)
    page = client.get(reverse(f"admin:{kind._meta.app_label}_{kind._meta.model_name}_changelist"), follow=True)
    fits = kind._default_manager.filter(pk=rows[kind._meta.db_table].pk).exists() and kind not in NARROWER
    assert (page.context["cl"].result_count > 0) == fits


# -- the identity ---------------------------------------------------------------------------------------------


def parameter() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('commonplace.email', true)")
        return cursor.fetchone()[0] or ""


@pytest.mark.django_db(transaction=True)
def test_the_identity_ends_with_its_transaction(alice: Caller, bob: Caller) -> None:
    with identity.acting_as(alice):
        assert parameter() == alice.email
        with atomic():
            assert parameter() == alice.email
            with identity.acting_as(bob):
                assert parameter() == bob.email
            assert parameter() == alice.email
    raw = connection.connection.execute("SELECT current_setting('commonplace.email', true), current_user").fetchone()
    assert raw[0] in ("", None)
    assert raw[1] == connection.settings_dict["USER"]


def test_the_identity_survives_a_rollback_to_a_savepoint(alice: Caller, bob: Caller) -> None:
    with identity.acting_as(alice):
        with atomic():
            savepoint = transaction.savepoint()
            with identity.acting_as(bob):
                assert parameter() == bob.email
                transaction.savepoint_rollback(savepoint)
                assert parameter() == bob.email
            assert parameter() == alice.email
        with pytest.raises(DatabaseError), atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")
        assert parameter() == alice.email


@pytest.mark.django_db(transaction=True)
def test_a_transaction_that_begins_with_a_public_statement_gets_the_identity(alice: Caller) -> None:
    with identity.acting_as(alice):
        for _ in range(2):  # the connection of the second one has sent the same identity before
            with transaction.atomic():
                prepared_statements.rows("SELECT count(*) FROM catalog_aspects", [], public=True)
                assert parameter() == alice.email


@pytest.mark.django_db(transaction=True)
def test_every_kind_of_statement_runs_under_the_identity(fact: MemoryRecord, alice: Caller, olga: Caller) -> None:
    for caller, expected in ((alice, 1), (olga, 0)):
        with identity.acting_as(caller):
            assert len(prepared_statements.rows("SELECT id FROM memory_records", [])) == expected
            assert len(list(MemoryRecord.objects.iterator(chunk_size=1))) == expected
            with atomic():
                assert len(list(MemoryRecord.objects.iterator(chunk_size=1))) == expected
            assert MemoryRecord.objects.count() == expected
            assert len(MemoryRecord.objects.filter(pk=fact.pk).union(MemoryRecord.objects.all())) == expected


def test_a_service_has_a_name_with_a_reason() -> None:
    with pytest.raises(ValueError, match="is no service"), identity.service("anything"):
        pass
    docs = (ROOT / "docs/security.md").read_text()
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", docs, re.MULTILINE))
    assert {name: listed.get(name) for name in identity.SERVICES} == identity.SERVICES
    used = set()
    for app in ("foundation", "memories", "knowledge", "analysis", "memory_project"):
        for file in (ROOT / app).rglob("*.py"):
            used |= set(re.findall(r"service\(\"(\w+)\"\)", file.read_text()))
    assert used | {"command", "worker"} == set(identity.SERVICES)


def test_passages_follow_their_memory(fact: MemoryRecord, alice: Caller, olga: Caller) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.EVERYONE))
    with identity.acting_as(olga):
        assert Passage.objects.filter(record=fact.pk).exists()
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    with identity.acting_as(olga):
        assert not Passage.objects.filter(record=fact.pk).exists()


def test_an_earlier_private_state_stays_private(fact: MemoryRecord, alice: Caller, bob: Caller) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    services.revise(alice, Revise(record_id=fact.pk, content="Refunds are booked a day late."))
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PERSONA))
    with identity.acting_as(bob):
        assert MemoryRecord.objects.filter(pk=fact.pk).exists()
        assert {row.visibility for row in MemoryRevision.objects.filter(record=fact.pk)} == {Visibility.PERSONA}


def test_undo_and_tokens_know_states_that_the_caller_may_not_read(
    fact: MemoryRecord, alice: Caller, ada: Caller, bob: Caller
) -> None:
    services.revise(ada, Revise(record_id=fact.pk, content="Refunds are booked a day late."))
    seen = memory_versions([fact])
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PRIVATE))
    services.share(alice, Share(record_id=fact.pk, visibility=Visibility.PERSONA))
    with identity.acting_as(bob):
        assert memory_versions([fact]) != seen
        with pytest.raises(Forbidden, match="alice"):
            undo(bob, record_id=fact.pk, change="share")


# -- the policies as the only filter --------------------------------------------------------------------------

SECRET = "zanzibar"


@pytest.mark.django_db(transaction=True)
def test_no_tool_reveals_a_memory_if_the_scopes_are_forgotten(alice: Caller, olga: Caller, monkeypatch: Any) -> None:
    """Replay the recorded calls as an outsider, with every scope of memories, insights and graphs removed."""
    for visibility in (Visibility.PRIVATE, Visibility.PERSONA):
        text = f"Revenue of {SECRET} orders, {visibility}, excludes refunds."
        services.remember(alice, Remember(content=text, visibility=visibility))
    for module in (
        "memories.models.record",
        "memories.models.revision",
        "knowledge.models.insight",
        "knowledge.graph.models",
    ):
        monkeypatch.setattr(f"{module}.readable_by", lambda caller, prefix="": Q())
    server = build_server(toolsets=["all"], identify=lambda _: olga)
    calls = [
        (call["call"].split()[-1], call["arguments"])
        for call in json.loads((ROOT / "tests/recorded_calls.json").read_text())
        if isinstance(call.get("arguments"), dict)
    ]
    reading = [*calls, *((name, {"command": "recall", "query": SECRET}) for name in server.offered if "recall" in name)]

    async def answers() -> list[str]:
        async with McpClient(server) as client:
            results = [await client.call_tool(name, arguments) for name, arguments in reading if name in server.offered]
            return [str(result.content) for result in results]

    try:
        texts = asyncio.run(answers())
    finally:
        connections.close_all()
    assert len(texts) > 50
    assert [text for text in texts if SECRET in text.replace(f"'{SECRET}'", "")] == []


# -- the installation -----------------------------------------------------------------------------------------


def test_a_role_that_bypasses_the_policies_is_reported(db: None) -> None:
    assert "superuser" in str(database.row_security(facts.read()).found)  # tests connect as a superuser
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL ROLE {APPLICATION}")
        assert database.row_security(facts.read()).state == "ok"
        cursor.execute("RESET ROLE")
        cursor.execute("ALTER TABLE graphs NO FORCE ROW LEVEL SECURITY")
        cursor.execute(f"SET LOCAL ROLE {APPLICATION}")
    assert "graphs" in str(database.row_security(facts.read()).found)
