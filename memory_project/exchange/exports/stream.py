"""The rows of an export, read one chunk at a time from one consistent state of the database.

Every row is read under the identity of the person who exports, so PostgreSQL's policies apply to it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.people.caller import Caller, require_user
from foundation.people.models import Persona
from memories.portability import ExportKind, Values, to_json
from memories.portable_kinds import kinds

VERSION = 1
PERSON, PERSONA, INSTALLATION = SCOPES = ("person", "persona", "installation")
REPORT_EVERY = 1_000  # number of rows between two reports of progress


@dataclass(frozen=True)
class ExportScope:
    """What is exported, and by whom. Made by `scope_of`, which checks the permission."""

    caller: Caller
    name: str
    persona: str = ""

    @property
    def of(self) -> str:
        """Return the person or persona whose rows are exported, or "" for the installation."""
        return {PERSON: self.caller.email, PERSONA: self.persona, INSTALLATION: ""}[self.name]

    def kinds(self) -> list[ExportKind]:
        return [kind for kind in kinds().values() if self._rows(kind) is not None]

    def read(self, kind: ExportKind) -> Iterator[Values]:
        rows = self._rows(kind)
        return iter(()) if rows is None else kind.read(rows)

    def count(self, kind: ExportKind) -> int:
        rows = self._rows(kind)
        return 0 if rows is None else rows.order_by().count()

    def _rows(self, kind: ExportKind):  # type: ignore[no-untyped-def]  # QuerySet[Any] | None, as Kind.rows
        owner = self.caller.email if self.name == PERSON else ""
        return kind.rows(owner=owner, persona=self.persona)


def scope_of(caller: Caller, *, scope: str, persona: str = "") -> ExportScope:
    """Return what the caller exports. Raises Forbidden if they may not."""
    require_user(caller)
    if scope not in SCOPES:
        raise Invalid(gettext("%(scope)r is unknown") % {"scope": scope[:80]}, field="scope", allowed=", ".join(SCOPES))
    if bool(persona) != (scope == PERSONA):
        raise Invalid(gettext("is for the scope persona, which requires it"), field="persona")
    if scope == INSTALLATION and not caller.is_admin:
        raise Forbidden(gettext("only admins can export the installation"), field="scope", allowed="person, persona")
    if scope == PERSONA and not caller.can_review_for(persona):
        raise Forbidden(gettext("only curators who hold the persona can export it"), field="persona")
    if scope == PERSONA and not Persona.objects.filter(name=persona).exists():
        raise NotFound(gettext("no such persona"), field="persona")
    return ExportScope(caller, scope, persona)


@contextmanager
def snapshot() -> Iterator[None]:
    """Let all statements of the block see the same state of the database. The block can't write."""
    if connection.in_atomic_block:  # the transaction has its own isolation level
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    raw.read_only = True
    try:
        with transaction.atomic():
            yield
    finally:
        if not raw.closed:
            raw.isolation_level = raw.read_only = None


def export_rows(
    scope: ExportScope,
    *,
    names: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Iterator[Values]:
    """Yield the first line, the rows and the last line of an export.

    `names` are the kinds to export; all if it is empty. `progress` is called with the number of rows so far, and the
    number of all.
    """
    with identity.acting_as(scope.caller), snapshot():
        chosen = [kind for kind in scope.kinds() if not names or kind.name in names]
        total = sum(scope.count(kind) for kind in chosen)
        progress(0, total)
        yield _header(scope)
        counts: Counter[str] = Counter()
        for kind in chosen:
            for row in scope.read(kind):
                counts[kind.name] += 1
                if counts.total() % REPORT_EVERY == 0:
                    progress(counts.total(), total)
                yield row
        yield {"kind": "end", "counts": {kind.name: counts[kind.name] for kind in chosen}}
        progress(counts.total(), counts.total())


def _header(scope: ExportScope) -> Values:
    return {
        "kind": "export",
        "format": "commonplace",
        "version": VERSION,
        "exported_at": to_json(timezone.now()),
        "scope": scope.name,
        "of": scope.of,
    }
