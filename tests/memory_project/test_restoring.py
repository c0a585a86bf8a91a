"""Restoring exports: exact round trips, repeated imports, files of strangers, and damaged files."""

from __future__ import annotations

import copy
import io
import uuid
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller
from knowledge.models import Insight, InsightState
from memories import services
from memories.models import IndexJob, MemoryRecord, MemoryRevision, Verification
from memories.operations import Erase, Remember, Revise
from memories.portability import Values
from memories.writing import erasure
from memories.writing.verification import last_verifications
from memory_project.exchange.exports.formats import as_line, write_zip
from memory_project.exchange.imports import staging, taking_over
from memory_project.exchange.imports.formats import FORMATS, commonplace
from memory_project.exchange.imports.installation import InstallationReport, restore_file
from memory_project.exchange.imports.restoring import restore
from memory_project.exchange.imports.rows import ImportedRow, TakeOverOutcome
from memory_project.models import Notification, User
from tests.jobs import ImportJobs, work_off
from tests.knowledge.changeset_examples import apply, change
from tests.memory_project.export_world import (
    SECRET,
    empty_the_installation,
    exported,
    make_world,
    of_kind,
    without_times,
)

pytestmark = pytest.mark.django_db
STATED_BY_OTHERS = ("feedback", "report", "verification", "decision")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> None:
    settings.COMMONPLACE_FILES = tmp_path


def as_file(rows: Sequence[Values]) -> io.BytesIO:
    return io.BytesIO(b"".join(map(as_line, rows)))


def read(rows: Sequence[Values]) -> list[ImportedRow]:
    return list(commonplace.read(as_file(rows), "export.jsonl"))


def imported(caller: Caller, rows: Sequence[Values]) -> list[tuple[ImportedRow, TakeOverOutcome]]:
    """Import a file as its reader and the takers do, and return what became of each row."""
    results = []
    for row in read(rows):
        kind = "memory" if row.kind == commonplace.RESTORED_MEMORY else row.kind
        outcome = (
            TakeOverOutcome("refused", row.problem) if row.problem else restore(caller, kind=kind, rows=[row.data])[0]
        )
        results.append((row, outcome))
    return results


def outcomes(results: Sequence[tuple[ImportedRow, TakeOverOutcome]]) -> Counter[str]:
    return Counter(outcome.outcome for _, outcome in results)


def restore_everything(admin: Caller, rows: Sequence[Values]) -> InstallationReport:
    report = InstallationReport()
    list(restore_file(caller=admin, file=as_file(rows), name="export.jsonl", report=report))
    return report


# -- round trips ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_catalog")
def test_an_installation_is_restored_exactly(alice: Caller, bob: Caller, ada: Caller, cora: Caller) -> None:
    make_world(alice, bob, ada)
    apply(alice, cora, change("add_tag", detail="Training"))
    before = exported(ada, "installation")
    assert {row["kind"] for row in before} >= {"changeset", "change", "insight", "decision", "tombstone", "quotation"}
    empty_the_installation()
    Notification.objects.all().delete()
    report = restore_everything(ada, before)
    assert ({outcome for _, outcome in report.counts}, report.problems) == ({"kept"}, [])
    assert without_times(exported(ada, "installation")) == without_times(before)
    assert not Notification.objects.exists()
    again = restore_everything(ada, before)
    assert {outcome for _, outcome in again.counts} == {"duplicate"}
    assert without_times(exported(ada, "installation")) == without_times(before)


def test_a_person_restores_what_is_theirs_exactly(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    before = exported(alice)
    empty_the_installation()
    results = imported(alice, before)
    refused = [(row, outcome) for row, outcome in results if outcome.outcome != "kept"]
    assert {row.kind for row, _ in refused} == set(STATED_BY_OTHERS)
    assert {row.data["by"] for row, _ in refused} == {bob.email, ada.email}
    after = exported(alice)
    gone = [{"kind": row.kind, **row.data} for row, _ in refused]
    ids = {(row["kind"], row["id"]) for row in gone}
    expected = [row for row in before[1:-1] if (row["kind"], row["id"]) not in ids and row["kind"] != "insight"]
    for row in of_kind(expected, "revision"):
        row["changed_by"] += "" if row["changed_by"] == alice.email else " (imported)"
    assert [row for row in after[1:-1] if row["kind"] != "insight"] == expected
    assert outcomes(imported(alice, before))["kept"] == 0


def test_verifications_hold_for_the_restored_version(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    before = exported(alice)
    empty_the_installation()
    imported(alice, before)
    verification = Verification.objects.get()
    assert last_verifications([verification.record_id])[verification.record_id].is_current
    assert verification.record.last_verified_at is not None
    assert IndexJob.objects.filter(source_kind="memory").exists()


def test_rows_of_an_old_address_become_the_importers(alice: Caller, olga: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    rows = exported(alice)
    empty_the_installation()
    results = imported(olga, rows)
    assert outcomes(results)["kept"] > 20
    assert set(MemoryRecord.objects.values_list("created_by", "persona", "visibility")) == {
        (olga.email, "supply", "private")
    }
    assert set(Verification.objects.values_list("by", flat=True)) == {olga.email}
    assert set(MemoryRevision.objects.values_list("changed_by", flat=True)) == {olga.email, f"{ada.email} (imported)"}


# -- trust ---------------------------------------------------------------------------------------------------


def test_nobody_imports_over_the_rows_of_others(alice: Caller, olga: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    rows = exported(alice)
    results = imported(olga, rows)
    kept = {row.kind for row, outcome in results if outcome.outcome != "refused"}
    assert kept == {"analysis"}  # one of her own with the same name, without findings
    assert [outcome.reason for _, outcome in results if "alice" in outcome.reason and "sales" in outcome.reason] == []
    assert not MemoryRecord.objects.filter(created_by=olga.email).exists()
    assert without_times(exported(alice)) == without_times(rows)


def test_nobody_imports_history_into_a_memory_of_others(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    services.revise(alice, Revise(record_id=fact.pk, summary="Short"))
    rows = exported(alice)
    for row in rows:
        row["reason"] = "forged" if row["kind"] == "revision" else row.get("reason")
    rows = [row for row in rows if row["kind"] == "revision"]
    data = [{key: value for key, value in row.items() if key != "kind"} for row in rows]
    (outcome,) = restore(bob, kind="revision", rows=data)
    assert (outcome.outcome, "isn't among your rows" in outcome.reason) == ("refused", True)
    assert not MemoryRevision.objects.filter(reason="forged").exists()


def test_an_approval_is_not_imported(alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    rows = exported(alice)
    empty_the_installation()
    for row in of_kind(rows, "insight"):
        row |= {"state": "approved", "reviewed_by": alice.email, "reviewed_at": "2026-01-01T00:00:00Z"}
    for row in of_kind(rows, "memory"):
        row["visibility"] = "everyone"
    imported(alice, rows)
    assert set(Insight.objects.values_list("state", "reviewed_by")) == {(InsightState.PENDING, "")}
    assert set(Insight.objects.values_list("record__visibility", flat=True)) == {"private"}


def memory_of(caller: Caller, **values: Any) -> Values:
    """Return a memory as an export of the caller would have it, with a new id."""
    text = f"A fact with the number {uuid.uuid4().int}."
    record = services.remember(caller, Remember(content=text)).record
    (row,) = [row for row in of_kind(exported(caller), "memory") if row["id"] == record.pk.hex]
    copied = copy.deepcopy(row) | {"id": uuid.uuid4().hex, "content": f"{text} Imported."} | values
    return {key: value for key, value in copied.items() if key != "kind"}


def outcome_of(caller: Caller, **values: Any) -> TakeOverOutcome:
    return restore(caller, kind="memory", rows=[memory_of(caller, **values)])[0]


def test_a_memory_does_not_attach_itself_to_one_of_others(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    """Erasing it would otherwise erase the other one, and superseding it would take its place."""
    for key in ("derived_from", "supersedes_id"):
        row = memory_of(bob, **{key: fact.pk.hex, "content": fact.content})
        (outcome,) = restore(bob, kind="memory", rows=[row])
        assert (outcome.outcome, "was dropped" in outcome.reason) == ("kept", True)
        erasure.erase(bob, Erase(record_id=row["id"], confirm=True))
        assert MemoryRecord.objects.filter(pk=fact.pk, superseded_by=None).exists()
    for values in ({"superseded_by": fact.pk.hex}, {"metadata": {"duplicate_of": fact.pk.hex}}):
        row = memory_of(bob, status="archived", **values)
        (outcome,) = restore(bob, kind="memory", rows=[row])
        assert (outcome.outcome, "was dropped" in outcome.reason) == ("kept", True)
        stored = MemoryRecord.objects.get(pk=row["id"])
        assert (stored.superseded_by, stored.metadata) == (None, {})
    quotation = {"id": "x", "place": "memories", "row": fact.pk.hex, "is_whole": True}
    own = services.remember(bob, Remember(content="A fact of Bob about stores.")).record
    (outcome,) = restore(bob, kind="quotation", rows=[quotation | {"record_id": own.pk.hex}])
    assert outcome.outcome == "refused"


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"content": "short"}, "content"), ({"content": "x" * 4001}, "content"), ({"content": 7}, "content"),
        ({"content": "A NUL \0 in the text."}, "content"), ({"tags": ["\ud800 a surrogate"]}, "tags"),
        ({"tags": "a"}, "tags"), ({"tags": [1]}, "tags"), ({"created_at": "yesterday"}, "created_at"),
        ({"created_at": "2999-01-01T00:00:00Z"}, "created_at"), ({"created_at": None}, "created_at"),
        ({"status": "fine"}, "status"), ({"visibility": "world"}, "visibility"), ({"importance": 1e308}, "importance"),
        ({"importance": True}, "importance"), ({"id": "no"}, "id"), ({"access_count": -1}, "access_count"),
        ({"access_count": 10**30}, "access_count"), ({"metadata": []}, "metadata"),
        ({"metadata": {"a": "x" * 20_000}}, "metadata"), ({"related_columns": [{"x": 1}]}, "related_columns"),
        ({"entity_urns": ["orders"]}, "entity_urns"), ({"unknown": 1}, "unknown"), ({"is_proposal": 1}, "is_proposal"),
        ({"status": "stale"}, "memory_stale_has_reason"), ({"persona": "x" * 61}, "persona"),
    ],
)  # fmt: skip
def test_a_faulty_row_is_refused_and_named(alice: Caller, values: dict[str, Any], field: str) -> None:
    outcome = outcome_of(alice, **values)
    assert (outcome.outcome, field in outcome.reason) == ("refused", True), outcome
    assert not MemoryRecord.objects.filter(content__endswith="Imported.").exists()


def test_a_faulty_row_spoils_no_other(alice: Caller) -> None:
    rows = [memory_of(alice), memory_of(alice, status="stale"), memory_of(alice), memory_of(alice)]
    rows[3]["id"] = rows[0]["id"]
    found = restore(alice, kind="memory", rows=rows)
    assert [outcome.outcome for outcome in found] == ["kept", "refused", "kept", "duplicate"]


def test_a_changed_row_is_conflicting_and_the_same_text_a_duplicate(alice: Caller) -> None:
    row = memory_of(alice)
    assert restore(alice, kind="memory", rows=[row])[0].outcome == "kept"
    assert restore(alice, kind="memory", rows=[row | {"summary": "Other"}])[0].outcome == "conflicting"
    assert restore(alice, kind="memory", rows=[row | {"access_count": 9}])[0].outcome == "duplicate"
    found = restore(alice, kind="memory", rows=[row | {"id": uuid.uuid4().hex}])[0]
    assert (found.outcome, found.reference) == ("duplicate", row["id"])


def test_an_erased_memory_does_not_come_back(alice: Caller, fact: MemoryRecord, ada: Caller) -> None:
    rows, everything = exported(alice), exported(ada, "installation")
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert [outcome.reason for _, outcome in imported(alice, rows)] == ["was erased here for good"]
    assert restore_everything(ada, everything).counts == {("memory", "refused"): 1}


def test_what_others_did_is_not_stated_by_a_file(alice: Caller, bob: Caller) -> None:
    metadata = {"edited_by": bob.email, "reviewed_by": bob.email, "applied_by": alice.email, "note": "mine"}
    assert outcome_of(alice, metadata=metadata).outcome == "kept"
    record = MemoryRecord.objects.get(content__endswith="Imported.")
    assert record.metadata == {"applied_by": alice.email, "note": "mine"}


def test_a_text_with_a_secret_is_restored_as_private(alice: Caller) -> None:
    text = "The key of the bucket is AKIAIOSFODNN7EXAMPLE."
    outcome = outcome_of(alice, content=text, visibility="everyone")
    assert (outcome.outcome, "a password, a token or a key" in outcome.reason) == ("kept", True)
    assert MemoryRecord.objects.get(content=text).visibility == "private"


def test_only_admins_restore_an_installation(alice: Caller, ada: Caller, fact: MemoryRecord) -> None:
    rows = exported(ada, "installation")
    with pytest.raises(Forbidden):
        restore_everything(alice, rows)
    with pytest.raises(Forbidden):
        restore(alice, kind="memory", rows=[], keep_owners=True)
    empty_the_installation()
    User.objects.filter(email=alice.email).delete()
    report = restore_everything(ada, rows)
    assert report.remarks == {"alice@example.org has no account here."}
    assert not User.objects.filter(email=alice.email).exists()
    assert MemoryRecord.objects.get().created_by == alice.email


# -- files ---------------------------------------------------------------------------------------------------

HEADER = {"kind": "export", "format": "commonplace", "version": 1, "exported_at": "", "scope": "person", "of": "a@b.c"}
END = {"kind": "end", "counts": {}}


def problems(content: bytes) -> list[str]:
    return [f"{row.place}: {row.problem}" for row in commonplace.read(io.BytesIO(content), "x") if row.problem]


def test_damaged_lines_are_reported_with_their_place() -> None:
    lines = [
        as_line(HEADER), b'{"kind": "memory", "id": "a", "id": "b"}\n', b'{"kind": "memory"}\n', b'{"kind": "x"}\n',
        b"\xff\xfe\n", b"[1]\n", b'{"kind": "memory", "id": NaN}\n', as_line({"kind": "end", "counts": {"memory": 4}}),
        as_line(HEADER), b'{"half',
    ]  # fmt: skip
    found = problems(b"".join(lines))
    for number, text in enumerate(
        ("'id' twice", "id: is missing", "'x' is unknown", "UTF-8", "not an object", "NaN", "", "follows", "follows"), 2
    ):
        assert [problem for problem in found if problem.startswith(f"line {number}:") and text in problem] or not text
    assert "line 8: 1 rows of the kind memory were read, 4 were exported" in found


def test_a_cut_file_is_noticed(fact: MemoryRecord, alice: Caller) -> None:
    whole = as_file(exported(alice)).getvalue()
    assert problems(whole) == []
    assert problems(whole[: whole.rindex(b'{"kind":"end"')]) == ["end: the last line is missing: the file was cut"]
    assert "end: the last line is missing: the file was cut" in problems(whole[:-3])


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        (HEADER | {"version": 2}, "newer version"), (HEADER | {"version": "1"}, "no version"),
        (HEADER | {"format": "other"}, "first line"), ({"kind": "memory", "id": "a"}, "first line"),
    ],
)  # fmt: skip
def test_a_file_of_another_format_or_version_is_refused(header: Values, fault: str) -> None:
    with pytest.raises(Invalid, match=fault):
        problems(as_line(header) + as_line(END))


def zipped(**members: bytes) -> io.BytesIO:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    out.seek(0)
    return out


def test_zip_files_are_read_and_bad_ones_reported(alice: Caller, fact: MemoryRecord) -> None:
    out = io.BytesIO()
    write_zip(iter(exported(alice)), out)
    out.seek(0)
    assert commonplace.recognizes(out.getvalue()[:65_536], "x.zip")
    assert [row.kind for row in commonplace.read(out, "x.zip")] == [commonplace.RESTORED_MEMORY]
    bomb = zipped(export__jsonl=as_line(HEADER) + b" " * 300_000_000)
    (row,) = commonplace.read(bomb, "x.zip")
    assert "times its packed size" in row.problem
    lines = as_line(HEADER) + as_line(END)
    found = list(commonplace.read(zipped(export__jsonl=lines, **{"../up__jsonl": b"x", "inner__zip": b"PK"}), "x.zip"))
    assert [row.place for row in found] == ["../up.jsonl", "inner.zip"]
    with pytest.raises(Invalid, match=r"export\.jsonl"):
        list(commonplace.read(zipped(other__jsonl=lines), "x.zip"))


def test_the_format_is_recognized_before_others(alice: Caller, fact: MemoryRecord) -> None:
    content = as_file(exported(alice)).getvalue()
    fitting = [format.name for format in FORMATS.values() if format.recognizes(content[:65_536], "export.jsonl")]
    assert fitting[0] == "commonplace"


def test_the_pages_import_takes_an_export_over_and_undoes_it(
    alice: Caller, alice_user: User, bob: Caller, ada: Caller
) -> None:
    make_world(alice, bob, ada)
    rows = exported(alice)
    empty_the_installation()
    created = staging.start(alice, file=as_file(rows), name="export.jsonl")
    work_off(ImportJobs(), created.pk)
    taking_over.start(alice, import_id=created.pk)
    work_off(ImportJobs(), created.pk)
    assert created.rows.filter(outcome="kept").count() > 20
    assert MemoryRecord.objects.filter(content=SECRET, visibility="private").exists()
    taking_over.start_undo(alice, import_id=created.pk)
    work_off(ImportJobs(), created.pk)
    assert not MemoryRecord.objects.filter(content=SECRET, status="active").exists()


def test_the_command_restores_an_installation(
    ada: Caller, alice: Caller, fact: MemoryRecord, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "all.jsonl"
    path.write_bytes(as_file(exported(ada, "installation")).getvalue())
    empty_the_installation()
    call_command("import", str(path), "--as", ada.email, "--installation")
    assert "1 memory: kept" in capsys.readouterr().out
    assert MemoryRecord.objects.get().pk == fact.pk
