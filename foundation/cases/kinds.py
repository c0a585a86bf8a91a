"""Cases: items that wait for a person's decision, which may be undone.

An app registers its kinds of cases: who sees a case, which verdicts it takes, what each does, and how it is undone. The
inbox, REST and the briefing know them by this interface alone. Each kind has a table of its own, whose columns and
policies fit what its cases are about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.functional import Promise
from django.utils.module_loading import import_string
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.registry import Registry

MAX_PAST = 10  # verdicts of the caller that a page offers to undo


@dataclass(frozen=True)
class Decided:
    """Result of a verdict on one case."""

    message: str  # a whole sentence
    undo_token: str = ""  # names the verdict for CaseKind.undo; empty if it can't be undone
    memory_id: str = ""  # of the memory or insight that it has stored or changed


@dataclass(frozen=True)
class CaseVerdict:
    """One way to decide a case.

    `give` takes the id of a case, the token of its state that the person saw ("" if it is not compared), and values for
    some of `fields`. It raises a DomainError if the case can't be decided so: Conflict if it was decided meanwhile.
    """

    name: str
    label: Promise
    give: Callable[[Caller, str, str, Mapping[str, str]], Decided]
    fields: Sequence[str] = ()
    key: str = ""  # the letter that gives it on the page
    takes_many: bool = False  # whether it can be given on several cases at once
    # The MCP tool, and its command, that does the same. A connection of an agent that may not use it may not give it.
    tool: str = ""
    command: str = ""


@dataclass(frozen=True)
class Case:
    """A case as its reader sees it."""

    kind: CaseKind
    id: str
    since: datetime
    text: str  # what it is about
    shown: Any = None  # what the kind's template shows
    verdicts: Sequence[str] | None = None  # names of those that the reader may give; None for all of the kind
    seen: str = ""  # token of its state, which a verdict carries back; empty if nothing about the case can change

    @property
    def allowed(self) -> Sequence[str]:
        return [verdict.name for verdict in self.kind.verdicts] if self.verdicts is None else self.verdicts


@dataclass(frozen=True)
class PastVerdict:
    """A verdict that the caller has given. It can't be undone if `undo_token` is empty."""

    text: str  # what the case was about
    label: str  # of the verdict
    at: datetime | None
    undo_token: str = ""
    memory_id: str = ""


class CaseKind:
    """A kind of cases. Subclasses declare the attributes and override what they need."""

    name: str
    title: Promise  # in the plural, as on the tab of the inbox
    label: Promise  # in the singular, as on a case
    waiting_since = "created_at"  # the column with the time since when a case waits
    verdicts: Sequence[CaseVerdict] = ()
    is_for_role = False  # true for cases of admins or operators, whose tabs come last
    is_counted = True  # false for cases that may wait indefinitely: they appear only on their own tab, without a number
    # The MCP tool, and its command, whose permission an agent's connection needs to undo a verdict.
    undo_tool = ""
    undo_command = ""

    def is_for(self, caller: Caller) -> bool:
        """Return whether the caller can have such cases at all."""
        return True

    def waiting(self, caller: Caller) -> QuerySet[Any]:
        """Return the rows that wait for the caller."""
        raise NotImplementedError

    def cases(self, caller: Caller, rows: Sequence[Any]) -> list[Case]:
        """Return the cases of rows of `waiting`. A row that needs no decision any more may be left out."""
        raise NotImplementedError

    def about(self, rows: QuerySet[Any], subject: str) -> QuerySet[Any]:
        """Return those of the rows of `waiting` that are about a subject. A kind without subjects has none."""
        return rows.none()

    def summary(self, caller: Caller) -> Mapping[str, Any]:
        """Return what the kind's tab shows above the cases."""
        return {}

    def past(self, caller: Caller) -> list[PastVerdict]:
        """Return the last verdicts of the caller, the newest first."""
        return []

    def undo(self, caller: Caller, undo_token: str) -> None:
        """Undo the verdict that `Decided.undo_token` names. The token comes from a request, so it may be any text.

        Raises NotFound if the caller can't undo such a verdict, and Conflict if something has changed since.
        """
        raise NotFound(gettext("no such verdict"), field="undo")

    def verdict(self, name: str) -> CaseVerdict:
        """Raises Invalid if the kind has no such verdict."""
        for verdict in self.verdicts:
            if verdict.name == name:
                return verdict
        names = ", ".join(verdict.name for verdict in self.verdicts)
        raise Invalid(gettext("%(name)r is unknown") % {"name": name[:40]}, field="verdict", allowed=names)


# Dotted paths of the subclasses, which are imported when somebody looks at cases: a server over stdio may never do so.
CASE_KINDS: Registry[str] = Registry("kinds of cases")


@cache
def _kind(path: str) -> CaseKind:
    kind: CaseKind = import_string(path)()
    return kind


def kinds_for(caller: Caller) -> list[CaseKind]:
    kinds = [_kind(path) for path in CASE_KINDS.values()]
    found = [kind for kind in kinds if kind.is_for(caller) and (caller.may_administer or not kind.is_for_role)]
    return sorted(found, key=lambda kind: kind.is_for_role)


def kind_named(caller: Caller, name: str) -> CaseKind:
    """Raises Invalid if the caller has no cases of a kind with this name."""
    kinds = {kind.name: kind for kind in kinds_for(caller)}
    if name not in kinds:
        raise Invalid(gettext("%(name)r is unknown") % {"name": name[:40]}, field="kind", allowed=", ".join(kinds))
    return kinds[name]


def case_id(row: Any) -> str:
    return row.pk.hex if isinstance(row.pk, UUID) else str(row.pk)


def parse_case_id(text: str, field: str = "cases") -> UUID:
    """Read the id of a case whose row has a UUID. Raises Invalid."""
    pk: UUID = validate(Id, text, field)
    return pk


def undo_token_of(row: Any) -> str:
    """Return a token for the undo of a decision that is stored in its row. It names the decision by its time."""
    return f"{case_id(row)} {row.decided_at.isoformat()}"


def decided_row(rows: QuerySet[Any], undo_token: str) -> Any:
    """Return the row whose present decision a token of `undo_token_of` names.

    Raises NotFound if the row is not among `rows`, and Conflict if its decision was undone, or is a later one.
    """
    text, _, at = undo_token.partition(" ")
    row = rows.filter(pk=parse_case_id(text, "undo")).first()
    if row is None:
        raise NotFound(gettext("no such verdict"), field="undo")
    if row.decided_at is None or row.decided_at.isoformat() != at:
        raise Conflict(gettext("was undone already, or decided anew since"), field="undo")
    return row
