"""Staging: a file is stored, and a worker parses it into rows that its owner can look at.

Parsing goes on in slices. If a worker is killed, the next slice continues after the last row that was saved.
"""

from __future__ import annotations

import codecs
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import locks
from foundation.operations.errors import DomainError, Invalid, LimitReached, NotFound, check_choice
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.operations.timestamps import parse_timestamp
from foundation.people.caller import Caller, require_user
from memories.models import IN_USE, MemoryRecord, Visibility
from memories.operations import Remember
from memories.validity import rules
from memories.validity.scopes.choices import scope_for
from memories.writing.exact_duplicates import normalized_key, same_texts
from memory_project.exchange.imports import files
from memory_project.exchange.imports.conversation_rows import check_turn_row
from memory_project.exchange.imports.formats import FORMATS, comma_separated, front_matter
from memory_project.exchange.imports.formats.archives import is_archive
from memory_project.exchange.imports.models import WORKING, Import, ImportRow, ImportState, RowOutcome
from memory_project.exchange.imports.rows import ImportedRow
from memory_project.operating.shared import shared_files

BATCH = 500  # number of rows saved in one transaction
MAX_ROWS = 1_000_000
HEAD = 64 * 1024  # bytes by which a format is recognized
MAX_REASON, MAX_PLACE = 500, 300
SOURCE_KEY = "source_key"  # metadata key: the name of an imported item within its source


class Stopped(Exception):
    """An import was canceled or undone while a worker was busy with it. What the worker did last is rolled back."""


def advance(staged: Import, **fields: Any) -> None:
    """Save the progress of a slice, in its transaction. Raises Stopped if the import is no longer in its state."""
    is_current = Import.objects.filter(pk=staged.pk, state=staged.state).update(**fields)
    if not is_current:
        raise Stopped
    for name, value in fields.items():
        setattr(staged, name, value)


def start(caller: Caller, *, file: BinaryIO, name: str, format: str = "") -> Import:
    """Store a file to be parsed by a worker.

    Raises Invalid if its format is not recognized, and LimitReached if IMPORTS_AT_ONCE of the caller's are running.
    """
    require_user(caller)
    if format:
        check_choice("format", format, FORMATS)
    head = file.read(HEAD)
    file.seek(0)
    chosen = format or _recognized(head, name)
    running = Import.objects.filter(created_by=caller.email, state__in=WORKING).count()
    if running >= settings.IMPORTS_AT_ONCE:
        raise LimitReached(
            gettext("%(running)s of your imports are running (IMPORTS_AT_ONCE): wait until one is done, or cancel one")
            % {"running": running},
            field="file",
        )
    with transaction.atomic():
        staged = Import.objects.create(
            created_by=caller.email, persona=caller.persona, file_name=Path(name).name[:255] or "file", format=chosen
        )
        staged.size = _store(staged, file)
        shared_files.note_folder()
        staged.save(update_fields=["size"])
    return staged


def _recognized(head: bytes, name: str) -> str:
    if not head:
        raise Invalid(gettext("is empty"), field="file")
    fitting = [format.name for format in FORMATS.values() if format.recognizes(head, name)]
    if not fitting and not is_archive(head) and not _is_utf8(head):
        raise Invalid(gettext("is not encoded in UTF-8"), field="file", allowed=gettext("the file saved as UTF-8"))
    if not fitting and name.lower().endswith(comma_separated.EXTENSIONS):
        return "csv"  # whose reader says what is wrong with the header
    if not fitting:
        titles = ", ".join(format.title for format in FORMATS.values())
        raise Invalid(gettext("is in no format that is known here"), field="file", allowed=titles)
    return fitting[0]


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # whose last character may be cut
    except UnicodeDecodeError:
        return False
    return True


def _store(staged: Import, file: BinaryIO) -> int:
    path = files.path_of(staged)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with path.open("wb") as target:
        shutil.copyfileobj(file, target)
    size = path.stat().st_size
    if size > settings.IMPORT_MAX_BYTES:
        path.unlink()
        raise LimitReached(
            gettext("the file has %(size)s bytes; allowed: at most %(import_max_bytes)s")
            % {"size": f"{size:,}", "import_max_bytes": f"{settings.IMPORT_MAX_BYTES:,}"},
            field="file",
        )
    return size


def get(caller: Caller, import_id: UUID | str) -> Import:
    staged = Import.objects.filter(pk=validate(Id, import_id, "import_id"), created_by=caller.email).first()
    if staged is None:
        raise NotFound(gettext("no such import"), field="import_id")
    return staged


def parse(caller: Caller, staged: Import) -> Generator[object, None, None]:
    """Stage rows from where an earlier call has stopped, and yield after each batch.

    The first slice parses the file as a whole, because few formats can be read from the middle.
    """
    try:
        if not files.parsed_path_of(staged).exists():
            _parse_all(staged)
            yield None
        with files.parsed_path_of(staged).open("rb") as file:
            file.seek(staged.read_to)
            while not staged.is_read:
                batch = [ImportedRow(**json.loads(line)) for line in itertools.islice(file, BATCH)]
                _save_batch(caller, staged, batch, file.tell() if batch else staged.read_to)
                yield None
    except Invalid as error:
        fail(staged, error.message)


def _parse_all(staged: Import) -> None:
    """Write one JSON object for each row of the file. A file that is written in part has another name."""
    target = files.parsed_path_of(staged)
    with tempfile.NamedTemporaryFile("w", dir=target.parent, prefix=f"{staged.pk.hex}.", delete=False) as draft:
        try:
            for number, row in enumerate(_rows(staged)):
                if number == MAX_ROWS:
                    raise _too_many_rows()
                draft.write(json.dumps(asdict(row), ensure_ascii=True, default=str) + "\n")
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise
    os.replace(draft.name, target)


def _too_many_rows() -> Invalid:
    return Invalid(
        gettext("has more than %(max_rows)s rows") % {"max_rows": f"{MAX_ROWS:,}"},
        field="file",
        allowed=gettext("a part of it at a time"),
    )


def _save_batch(caller: Caller, staged: Import, batch: Sequence[ImportedRow], read_to: int) -> None:
    if staged.rows_read + len(batch) > MAX_ROWS:
        raise _too_many_rows()
    is_read = len(batch) < BATCH
    with locks.fenced(), transaction.atomic():
        _save(caller, staged, batch)
        advance(
            staged,
            rows_read=staged.rows_read + len(batch),
            read_to=read_to,
            worked_at=timezone.now(),
            is_read=is_read,
            state=ImportState.PARSED if is_read else staged.state,
        )
    if staged.is_read:
        files.delete(staged.pk)


def _rows(staged: Import) -> Iterator[ImportedRow]:
    with files.path_of(staged).open("rb") as file:
        yield from FORMATS[staged.format].read(file, staged.file_name)


def fail(staged: Import, message: str) -> None:
    """End an import with an error, unless it has been canceled or undone meanwhile."""
    with suppress(Stopped):
        advance(staged, state=ImportState.FAILED, error=message, finished_at=timezone.now())
    files.delete(staged.pk)


def _save(caller: Caller, staged: Import, batch: Sequence[ImportedRow]) -> None:
    rows = [_staged(caller, staged, number, row) for number, row in enumerate(batch, staged.rows_read + 1)]
    _find_repetitions(staged, rows)
    _find_existing(caller, rows)
    for row in rows:
        row.is_chosen = row.outcome == RowOutcome.NEW
    ImportRow.objects.bulk_create(rows)


def _staged(caller: Caller, staged: Import, number: int, row: ImportedRow) -> ImportRow:
    result = ImportRow(
        of=staged,
        owner=staged.created_by,
        number=number,
        place=row.place[:MAX_PLACE],
        kind=row.kind[:40],
        key=row.key[:400],
        data=dict(row.data),
        outcome=RowOutcome.NEW,
    )
    problem = row.problem or problem_of(caller, row.kind, row.data)
    if problem:
        result.outcome = RowOutcome.REFUSED
        result.reason = problem[:MAX_REASON]
    elif row.kind == "memory":
        result.text_key = md5(normalized_key(result.text).encode(), usedforsecurity=False).hexdigest()
        if unread := front_matter.why_not_read(row.data):
            result.reason = f"its front matter was not read: {unread}"[:MAX_REASON]
    return result


def problem_of(caller: Caller, kind: str, data: Mapping[str, Any]) -> str:
    """Return why an item can't be taken over, or "" if it can."""
    try:
        if kind == "memory":
            scope_for(caller, operation_of(data).scope)
        elif kind == "turn":
            check_turn_row(data)
    except DomainError as error:
        return error.message
    return ""


def operation_of(data: Mapping[str, Any], visibility: str = "", *, applies_to_all: bool = False) -> Remember:
    """Return the operation that stores an item. `visibility` holds for items without one, or for all."""
    fields = {name: value for name, value in data.items() if name != "created_at"}
    if visibility and (applies_to_all or not fields.get("visibility")):
        fields["visibility"] = visibility
    fields.setdefault("visibility", Visibility.PRIVATE.value)
    operation = Remember.read(fields)
    rules.validity_columns(operation.values())  # raises Invalid if the memory has ended, or its condition is unknown
    return operation


def created_at(data: Mapping[str, Any]) -> datetime | None:
    """Return when an item was learned, or None if that is unknown or in the future."""
    text = data.get("created_at")
    moment = parse_timestamp(text) if isinstance(text, str) else None
    return moment if moment and moment <= timezone.now() else None


def _find_repetitions(staged: Import, rows: Sequence[ImportRow]) -> None:
    keys = [row.text_key for row in rows if row.text_key]
    earlier = ImportRow.objects.filter(of=staged, text_key__in=keys).exclude(outcome=RowOutcome.REFUSED)
    # without the repetitions, of which a file may have thousands
    earlier = earlier.exclude(outcome=RowOutcome.DUPLICATE, existing=None)
    first = dict(earlier.order_by("-number").values_list("text_key", "place"))
    for row in rows:
        if not row.text_key:
            continue
        if row.text_key in first:
            row.outcome = RowOutcome.DUPLICATE
            row.reason = f"says the same as {first[row.text_key]}"
        else:
            first[row.text_key] = row.place


def _find_existing(caller: Caller, rows: Sequence[ImportRow]) -> None:
    """Mark rows whose text the caller has remembered already, or whose earlier version was imported before."""
    new = [row for row in rows if row.outcome == RowOutcome.NEW and row.kind == "memory"]
    known = same_texts(caller, [row.text for row in new])
    versions = _by_key(caller, [row.key for row in new if row.key])
    for row in new:
        if record := known.get(normalized_key(row.text)):
            row.outcome = RowOutcome.DUPLICATE
            row.existing = record.pk
            row.reason = "; ".join(filter(None, ["is remembered already", rules.outside_note(record)]))
        elif row.key in versions:
            row.outcome = RowOutcome.CONFLICTING
            row.existing = versions[row.key]
            row.reason = "was imported before, with another text"


def _by_key(caller: Caller, keys: Sequence[str]) -> dict[str, UUID]:
    rows = MemoryRecord.objects.visible_to(caller).filter(created_by=caller.email, persona=caller.persona)
    rows = rows.filter(metadata__has_key=SOURCE_KEY, metadata__source_key__in=keys)  # the first uses the index
    found = rows.filter(status__in=IN_USE).order_by("created_at")
    return {str(key): pk for key, pk in found.values_list("metadata__source_key", "pk")} if keys else {}
