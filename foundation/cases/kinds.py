"""Cases: what waits for a person, who decides about it and may undo the decision.

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

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from foundation.registry import Registry


@dataclass(frozen=True)
class Given:
    """A verdict that was given on one case."""

    message: str  # a sentence that says what has happened
    undo: str = ""  # names the verdict for CaseKind.undo; empty if it can't be undone
    memory_id: str = ""  # of the memory or insight that it has stored


@dataclass(frozen=True)
class CaseVerdict:
    """One way to decide a case. `give` takes the id of a case and the values of `fields`, and raises a DomainError."""

    name: str
    label: Promise
    give: Callable[[Caller, str, Mapping[str, str]], Given]
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
    row: Any = None  # what the kind's template shows
    verdicts: Sequence[str] = ()  # names of those that the reader may give
    seen: str = ""  # token of its state, which a verdict may carry back as the value `seen`


@dataclass(frozen=True)
class PastVerdict:
    """A verdict that the caller has given, and that may be undone unless `undo` is empty."""

    text: str  # what the case was about
    label: str  # of the verdict
    at: datetime | None
    undo: str = ""
    memory_id: str = ""


class CaseKind:
    """A kind of cases. Subclasses declare the attributes and override what they need."""

    name: str
    title: Promise  # in the plural, as on the tab of the inbox
    label: Promise  # in the singular, as on a case
    by = "created_at"  # the column with the time since when a case waits
    verdicts: Sequence[CaseVerdict] = ()
    is_for_role = False  # true for cases of admins or operators, whose tabs come last
    is_counted = True  # false for cases that may wait for ever: they are on their own tab only, without a number

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
        """Return those of the rows of `waiting` that are about a subject, if the kind has subjects."""
        return rows

    def summary(self, caller: Caller) -> Mapping[str, Any]:
        """Return what the kind's tab shows above the cases."""
        return {}

    def past(self, caller: Caller) -> list[PastVerdict]:
        """Return the last verdicts of the caller, the newest first."""
        return []

    def undo(self, caller: Caller, given: str) -> None:
        """Undo the verdict that is named by `Given.undo`. Raises Conflict if something has changed since."""
        raise NotFound(gettext("no such verdict"), field="verdicts")

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
    kinds = [kind for path in CASE_KINDS.values() if (kind := _kind(path)).is_for(caller)]
    return sorted(kinds, key=lambda kind: kind.is_for_role)


def kind_named(caller: Caller, name: str) -> CaseKind:
    """Raises Invalid if the caller has no cases of a kind with this name."""
    kinds = {kind.name: kind for kind in kinds_for(caller)}
    if name not in kinds:
        raise Invalid(gettext("%(name)r is unknown") % {"name": name[:40]}, field="kind", allowed=", ".join(kinds))
    return kinds[name]


def case_id(row: Any) -> str:
    return row.pk.hex if isinstance(row.pk, UUID) else str(row.pk)
