"""Exports: what is in them, who may read what, their formats and files, and the export of lists."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from jsonschema import Draft202012Validator

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import CURATE, Caller
from memories import services as memories
from memories.models import MemoryRecord
from memories.operations import Erase, Remember, Share
from memories.portable_kinds import kinds
from memories.writing import erasure
from memory_project.accounts import people
from memory_project.exchange.exports import files, services
from memory_project.exchange.exports.formats import FORMATS
from memory_project.exchange.exports.models import Export, ExportState
from memory_project.exchange.exports.schema import schema
from memory_project.exchange.exports.stream import export_rows, scope_of
from memory_project.models import User
from tests.jobs import ExportJobs, work_off
from tests.memory_project.export_world import SECRET, exported, make_world, of_kind

pytestmark = pytest.mark.django_db
SCHEMA_FILE = Path(__file__).resolve().parents[2] / "docs/export-v1.schema.json"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.COMMONPLACE_FILES = tmp_path
    return tmp_path


@pytest.fixture
def curator(bob: Caller) -> Caller:
    return replace(bob, rights=frozenset({CURATE}))


# -- what is exported ----------------------------------------------------------------------------------------

# Columns that are computed from others, or copied from them by triggers, and numbers that only this database knows.
DERIVED = {
    "memory": {
        "detected_urns", "entities_detected_at", "content_key", "search", "embedding_model", "embedding_text_hash",
        "unsettled",  # nobody is asked again about a memory of another installation, which has another catalog
        "quiet_at", "counted_from",
    },
    "caveat_waiver": {"id", "owner", "persona", "visibility"},
    "revision": {"id"},
    "feedback": {"id", "owner", "persona", "visibility"},
    "report": {"id", "owner", "persona", "visibility"},
    "verification": {"id", "owner", "persona", "visibility"},
    "citation": {"id"},
    "quotation": {"id"},
    "check": {
        "updated_at", "captured", "state", "checked_at", "runs", "failures", "failed_at", "next_run_at", "runs_on",
        "runs_that_day",
    },
    "insight": {"owner", "persona", "visibility"},
    "decision": {"id"},
    "merge": {"correction_id"},  # for the undo alone, which another installation doesn't offer
    "suggestion": {"text_key"}, "changeset approval": {"id"},
    "change": {"id"},
    "analysis": {"id"},
    "finding": {"session_id", "embedding_model", "embedding_text_hash"},
    "user_decision_change": {"id"},
    "entity": {"folded", "grams", "access_count", "access_days", "last_access"},
    "observation": {"is_flag_due", "folded", "grams", "embedding_model", "embedding_text_hash"},
    "observation_move": {"id"},
    "reflection": {"vector", "embedding_model", "embedding_text_hash"},
}  # fmt: skip
# Tables with texts that are not exported, and why.
LEFT_OUT = {
    "memory_passages": "computed", "memory_lexemes": "computed", "memory_lexeme_changes": "computed",
    "graph_passages": "computed",
    "analysis_passages": "computed", "graph_access_days": "counters", "graph_co_occurrences": "counters",
    "memory_showings": "counters", "conversation_cache_use": "counters", "conversation_cache": "a cache",
    "ingested_records": "copies of another system", "analysis_ingests": "states of downloads",
    "analysis_actions": "writes to another system", "analysis_action_items": "writes to another system",
    "analysis_sources": "settings", "analysis_source_checks": "states", "batches": "ids of rows",
    "hand_overs": "ids of rows", "index_jobs": "work", "jobs": "work", "leases": "work", "memories_persona": "settings",
    "memory_periods": "settings",
    "memories_personamembership": "accounts", "memory_same_words": "ids of rows", "entity_baselines": "the catalog",
    "catalog_aspects": "the catalog", "catalog_entities": "the catalog", "catalog_texts": "the catalog",
    "catalog_passages": "the catalog", "catalog_lineage": "the catalog",
    "catalog_column_lineage": "the catalog", "catalog_cursors": "the catalog",
    "entity_states": "the catalog", "failed_calls": "kept for minutes", "graph_upkeep_proposals": "proposals",
    "conversation_wipe_requests": "requests", "assignment_rules": "settings", "approval_rules": "settings",
    "entity_uses": "counters",
    "memory_purposes": "settings", "contradictions": "computed", "contradiction_scans": "computed",
    "settlements": "verdicts on texts of two people",
    "entity_debts": "computed", "interview_questions": "requests, whose answers are insights",
}  # fmt: skip


def test_every_canonical_column_is_exported() -> None:
    missing = {
        name: {field.attname for field in kind.model._meta.concrete_fields} - {kind.lookup(key) for key in kind.columns}
        for name, kind in kinds().items()
    }
    assert {name: columns for name, columns in missing.items() if columns} == DERIVED


def test_every_table_of_the_domain_is_exported_or_left_out_for_a_reason() -> None:
    domain = ("foundation", "memories", "knowledge", "analysis")
    tables = {model._meta.db_table for model in apps.get_models() if model.__module__.partition(".")[0] in domain}
    assert tables - {kind.model._meta.db_table for kind in kinds().values()} == set(LEFT_OUT)


def test_the_schema_in_the_docs_holds_for_every_line(alice: Caller, bob: Caller, ada: Caller) -> None:
    assert json.loads(SCHEMA_FILE.read_text()) == schema()
    make_world(alice, bob, ada)
    lines = [*exported(alice), *exported(ada, "installation")]
    validators = {part["properties"]["kind"]["const"]: Draft202012Validator(part) for part in schema()["oneOf"]}
    assert [error.message for line in lines for error in validators[line["kind"]].iter_errors(line)] == []
    absent = set(validators) - {line["kind"] for line in lines}
    assert absent == {"change", "changeset", "changeset approval"}  # test_restoring.py has some
    counts = Counter(line["kind"] for line in exported(ada, "installation"))
    assert {kind: count for kind, count in lines[-1]["counts"].items() if count} == {
        kind: count for kind, count in counts.items() if kind not in ("export", "end")
    }


def test_a_person_exports_their_own_rows_only(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    rows = exported(alice)
    assert rows[0] | {"exported_at": ""} == {
        "kind": "export", "format": "commonplace", "version": 1, "exported_at": "", "scope": "person",
        "of": alice.email,
    }  # fmt: skip
    assert {row["created_by"] for row in of_kind(rows, "memory")} == {alice.email}
    assert len(of_kind(rows, "memory")) == MemoryRecord.objects.filter(created_by=alice.email).count()
    assert SECRET in {row["content"] for row in of_kind(rows, "memory")}
    assert "of Bob" not in json.dumps(rows)
    assert len(exported(bob)) == 3


def test_a_correction_comes_after_the_memory_that_it_corrects(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    known: set[str] = set()
    for row in of_kind(exported(alice), "memory"):
        assert row["supersedes_id"] is None or row["supersedes_id"] in known
        known.add(row["id"])


def test_curators_export_what_a_persona_shares(alice: Caller, bob: Caller, ada: Caller, curator: Caller) -> None:
    make_world(alice, bob, ada)
    for caller in (curator, ada):
        rows = exported(caller, "persona", "sales")
        assert {row["created_by"] for row in of_kind(rows, "memory")} == {alice.email, bob.email}
        assert {row["visibility"] for row in of_kind(rows, "memory")} == {"persona"}
        shared = {row["id"] for row in of_kind(rows, "memory")}
        belonging = {row["record_id"] for row in rows if "record_id" in row}
        assert belonging
        assert belonging <= shared
        assert SECRET not in json.dumps(rows)


@pytest.mark.parametrize(
    ("scope", "persona", "error"),
    [
        ("installation", "", Forbidden), ("persona", "sales", Forbidden), ("persona", "supply", Forbidden),
        ("persona", "", Invalid), ("person", "sales", Invalid), ("all", "", Invalid),
    ],
)  # fmt: skip
def test_a_person_without_permission_is_refused(
    alice: Caller, scope: str, persona: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        services.start_export(alice, scope=scope, persona=persona)
    assert not Export.objects.exists()


def test_an_unknown_persona_is_refused(ada: Caller) -> None:
    with pytest.raises(NotFound, match="persona"):
        scope_of(ada, scope="persona", persona="nobody")


# -- formats -------------------------------------------------------------------------------------------------


def written(caller: Caller, name: str) -> bytes:
    out = io.BytesIO()
    wanted = FORMATS[name]
    wanted.write(export_rows(scope_of(caller, scope="person"), names=wanted.kinds), out)
    return out.getvalue()


def test_a_zip_file_has_the_lines(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    archive = zipfile.ZipFile(io.BytesIO(written(alice, "zip")))
    assert archive.namelist() == ["README.txt", "export.jsonl"]
    assert len(archive.read("export.jsonl").splitlines()) == len(exported(alice))


def test_markdown_notes_have_safe_names_front_matter_and_links(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    for title in ("../../etc/passwd is a path here", "CON: <a|b>? #tag [[x]] ^1 %2f\nsecond line", "..... ..... ....."):
        memories.remember(alice, Remember(content=title))
    archive = zipfile.ZipFile(io.BytesIO(written(alice, "markdown")))
    names = archive.namelist()
    assert len(set(names)) == len(names) == MemoryRecord.objects.filter(created_by=alice.email).count()
    assert [
        name for name in names if not re.fullmatch(r"Commonplace/[^/\\:*?\"<>|#^\[\]%]+ [0-9a-f]{12}\.md", name)
    ] == []
    assert [name for name in names if ".." in name or len(name.encode()) > 200] == []
    notes = {name.removeprefix("Commonplace/").removesuffix(".md"): archive.read(name).decode() for name in names}
    for note in notes.values():
        _, front, _ = note.split("---\n", 2)
        assert all(json.loads(line.partition(": ")[2]) for line in front.splitlines() if ": 0" not in line)
    links = [link for note in notes.values() for link in re.findall(r"Correct(?:s|ed by) \[\[(.+?)\]\]", note)]
    assert len(links) == 2
    assert set(links) <= set(notes)
    assert any('tags: ["a-b", "tag-7"]' in note for note in notes.values())


def test_csv_runs_no_formulas(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    rows = list(csv.DictReader(io.StringIO(written(alice, "csv").decode())))
    assert len(rows) == MemoryRecord.objects.filter(created_by=alice.email).count()
    assert "'=Stores 9001 to 9099 are tills: 1/2" in {row["content"] for row in rows}


def test_parquet_has_types(alice: Caller, bob: Caller, ada: Caller, tmp_path: Path) -> None:
    import duckdb

    make_world(alice, bob, ada)
    path = tmp_path / "memories.parquet"
    path.write_bytes(written(alice, "parquet"))
    with duckdb.connect() as database:
        rows = database.read_parquet(str(path))
        types = dict(zip(rows.columns, map(str, rows.types), strict=True))
        assert len(rows.fetchall()) == MemoryRecord.objects.filter(created_by=alice.email).count()
    assert (types["tags"], types["is_proposal"], types["importance"]) == ("VARCHAR[]", "BOOLEAN", "DOUBLE")
    assert types["created_at"] == "TIMESTAMP WITH TIME ZONE"


# -- files ---------------------------------------------------------------------------------------------------


def finished(caller: Caller, **options: Any) -> Export:
    export = services.start_export(caller, **options)
    work_off(ExportJobs(), export.pk)
    export.refresh_from_db()
    return export


def test_a_worker_writes_the_file_and_only_its_owner_downloads_it(
    alice: Caller, alice_user: User, bob_user: User, ada_user: User, bob: Caller, ada: Caller, client: Client
) -> None:
    make_world(alice, bob, ada)
    export = finished(alice, format="jsonl")
    assert (export.state, export.size) == (ExportState.DONE, files.path_of(export).stat().st_size)
    assert files.path_of(export).stat().st_mode & 0o077 == 0
    address = reverse("export-file", args=[export.pk])
    for person in (bob_user, ada_user):
        client.force_login(person)
        assert client.get(address).status_code == 404
        assert client.post(reverse("delete-export", args=[export.pk])).status_code == 404
    client.force_login(alice_user)
    response = client.get(address)
    content = b"".join(response.streaming_content)  # type: ignore[attr-defined]
    assert len(content.splitlines()) == len(exported(alice))
    assert response["Content-Disposition"].startswith('attachment; filename="commonplace-person-')
    client.post(reverse("delete-export", args=[export.pk]))
    assert not Export.objects.exists()


def test_the_page_starts_an_export_and_shows_its_state(alice: Caller, alice_user: User, client: Client) -> None:
    client.force_login(alice_user)
    page = reverse("exports")
    assert "No exports yet" in client.get(page).content.decode()
    assert client.post(page, {"scope": "person", "format": "jsonl"}).status_code == 302
    assert "waiting" in client.get(page).content.decode()
    assert client.get(reverse("export-file", args=[Export.objects.get().pk])).status_code == 409
    refused = client.post(page, {"scope": "person", "format": "jsonl"})
    assert (refused.status_code, "written already" in refused.content.decode()) == (400, True)
    assert client.post(page, {"scope": "installation", "format": "jsonl"}).status_code == 400
    work_off(ExportJobs(), Export.objects.get().pk)
    assert "Download" in client.get(page).content.decode()


def test_a_file_goes_with_an_erased_memory_in_every_format(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    other, exports = finished(bob), [finished(alice, format=name) for name in FORMATS]
    record = MemoryRecord.objects.get(content=SECRET)
    paths = [files.path_of(export) for export in exports]
    erasure.erase(alice, Erase(record_id=record.pk, confirm=True))
    for export, _path in zip(exports, paths, strict=True):
        export.refresh_from_db()
        assert (export.state, "was erased" in export.error) == (ExportState.FAILED, True)
        with pytest.raises(Conflict):
            services.open_export(alice, export_id=export.pk)
    other.refresh_from_db()
    assert other.state == ExportState.DONE


@pytest.mark.django_db(transaction=True)
def test_the_files_are_deleted_when_the_erasure_is_committed(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    export = finished(alice)
    record = MemoryRecord.objects.get(content=SECRET)
    erasure.erase(alice, Erase(record_id=record.pk, confirm=True))
    assert list(files.folder().glob("*/*")) == []
    export.refresh_from_db()
    assert export.rows_total == export.rows_done > 20  # saved by a connection of its own


def test_an_erasure_while_a_file_is_written_writes_it_again(
    alice: Caller, bob: Caller, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_world(alice, bob, ada)
    export, record = services.start_export(alice, format="jsonl"), MemoryRecord.objects.get(content=SECRET)
    original, runs = services._write_file, []

    def write_and_erase(caller: Caller, export: Export) -> int:
        size = original(caller, export)
        runs.append(SECRET in files.path_of(export).read_text())
        if len(runs) == 1:
            erasure.erase(alice, Erase(record_id=record.pk, confirm=True))
        return size

    monkeypatch.setattr(services, "_write_file", write_and_erase)
    work_off(ExportJobs(), export.pk)
    assert runs == [True, False]
    export.refresh_from_db()
    assert export.state == ExportState.DONE
    assert SECRET not in files.path_of(export).read_text()


def test_the_file_of_a_persona_goes_when_a_memory_is_shared_no_longer(
    alice: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    export = finished(ada, scope="persona", persona="sales")
    memories.share(alice, Share(record_id=fact.pk, visibility="private"))
    export.refresh_from_db()
    assert export.state == ExportState.FAILED


def test_files_go_with_the_account_and_after_a_day(
    alice: Caller, ada: Caller, alice_user: User, fact: MemoryRecord, django_capture_on_commit_callbacks: Any
) -> None:
    first, second = finished(alice), finished(ada)
    with django_capture_on_commit_callbacks(execute=True):
        people.deactivate(ada, person=alice_user)
    assert not files.path_of(first).exists()
    Export.objects.filter(pk=second.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    with pytest.raises(NotFound):
        services.open_export(ada, export_id=second.pk)
    assert services.delete_expired() == 1
    assert not files.path_of(second).exists()


def test_a_person_who_has_lost_the_permission_gets_no_file(ada: Caller, ada_user: User, fact: MemoryRecord) -> None:
    export = services.start_export(ada, scope="installation")
    User.objects.filter(pk=ada_user.pk).update(is_superuser=False)
    work_off(ExportJobs(), export.pk)
    export.refresh_from_db()
    assert (export.state, export.error) == (
        ExportState.FAILED, "scope: only admins can export the installation; allowed: person, persona",
    )  # fmt: skip
    assert list(files.folder().glob("*/*.zip")) == []


def test_a_finished_file_is_closed_to_who_has_lost_the_permission(
    ada: Caller, ada_user: User, fact: MemoryRecord, client: Client
) -> None:
    export = finished(ada, scope="installation")
    address = reverse("export-file", args=[export.pk])
    client.force_login(ada_user)
    assert b"".join(client.get(address).streaming_content)  # type: ignore[attr-defined]
    User.objects.filter(pk=ada_user.pk).update(is_superuser=False)
    assert client.get(address).status_code == 403


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_writes_a_file_and_refuses_others(
    alice: Caller, fact: MemoryRecord, tmp_path: Path, capsysbinary: Any
) -> None:
    path = tmp_path / "mine.jsonl"
    call_command("export", "--as", alice.email, "--output", str(path))
    assert len(path.read_bytes().splitlines()) == 3
    capsysbinary.readouterr()
    call_command("export", "--as", alice.email, "--output", "-")
    assert len(capsysbinary.readouterr().out.splitlines()) == 3
    for options in (["--installation"], ["--persona", "sales"]):
        with pytest.raises(CommandError, match="only"):
            call_command("export", "--as", alice.email, "--output", str(tmp_path / "no.jsonl"), *options)
    with pytest.raises(CommandError, match="no user"):
        call_command("export", "--as", "nobody@example.org", "--output", "-")
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.jsonl"]


# -- lists ---------------------------------------------------------------------------------------------------


def downloaded(response: Any) -> Iterator[dict[str, Any]]:
    content = b"".join(response.streaming_content).decode()
    if response["Content-Type"].startswith("text/csv"):
        yield from csv.DictReader(io.StringIO(content))
    else:
        yield from map(json.loads, content.splitlines())


LISTS = (
    "my-knowledge", "my-insights", "review-list", "changesets", "chains", "analyses", "conversations",
    "user-decisions", "cached-answers", "activity", "news", "start-batch", "admin:audit",
)  # fmt: skip


def test_every_list_of_the_portal_is_exported(
    alice: Caller, bob: Caller, ada: Caller, ada_user: User, client: Client
) -> None:
    make_world(alice, bob, ada)
    client.force_login(ada_user)
    for page in LISTS:
        links = re.findall(r'href="([^"]*export=(?:csv|jsonl))"', client.get(reverse(page)).content.decode())
        as_csv, as_jsonl = (list(downloaded(client.get(link.replace("&amp;", "&")))) for link in links)
        assert [set(row) for row in as_csv] == [set(row) for row in as_jsonl][: len(as_csv)]


def test_a_list_exports_what_its_filters_show_and_not_only_the_page(
    alice: Caller, bob: Caller, alice_user: User, client: Client
) -> None:
    for number in range(25):
        memories.remember(alice, Remember(content=f"Fact number {number} about tills.", tags=["tills"]))
    memories.remember(bob, Remember(content="A private fact of Bob.", visibility="private", tags=["tills"]))
    memories.remember(alice, Remember(content="Another fact of Alice."))
    client.force_login(alice_user)
    rows = list(downloaded(client.get(reverse("my-knowledge"), {"tag": "tills", "export": "csv"})))
    assert len(rows) == 25
    assert {row["tags"] for row in rows} == {"tills"}
    found = list(downloaded(client.get(reverse("my-knowledge"), {"q": "fact number 7", "export": "jsonl"})))
    assert "Fact number 7 about tills." in {row["content"] for row in found}
    assert client.get(reverse("my-knowledge"), {"export": "xml"}).status_code == 200  # the page


def test_every_list_of_the_admin_is_exported(ada_user: User, client: Client) -> None:
    client.force_login(ada_user)
    for kind in site._registry:
        address = reverse(f"admin:{kind._meta.app_label}_{kind._meta.model_name}_changelist")
        assert "export=csv" in client.get(address, follow=True).content.decode()
        response = client.get(address, {"export": "csv"})
        header = b"".join(response.streaming_content).decode().splitlines()[0].split(",")  # type: ignore[attr-defined]
        assert not {"password", "digest", "secret", "url"} & set(header)


def test_an_admin_list_exports_its_filter_and_nothing_without_permission(
    alice: Caller, bob: Caller, alice_user: User, ada_user: User, client: Client
) -> None:
    for caller in (alice, bob):
        memories.remember(caller, Remember(content=f"=A private fact of {caller.email}.", visibility="private"))
    address = reverse("admin:memories_memoryrecord_changelist")
    client.force_login(ada_user)
    query = {"created_by": alice.email, "export": "csv"}
    assert [row["created_by"] for row in downloaded(client.get(address, query))] == [alice.email]
    User.objects.filter(pk=alice_user.pk).update(is_staff=True)
    client.force_login(alice_user)
    assert client.get(reverse("admin:memory_project_user_changelist"), {"export": "csv"}).status_code == 403
    assert client.get(address, {"export": "csv"}).status_code in (200, 403)
