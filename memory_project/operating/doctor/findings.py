"""A finding: the state of one thing, and the fix. Texts are translated when they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from django.utils.translation import gettext, gettext_noop

NAMES_SHOWN = 5
MAX_TEXT = 300  # characters of a text that another system has sent


class FindingState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class FindingText:
    """A message for gettext and its values, so that it can be stored and shown in any language."""

    message: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return gettext(self.message) % self.values if self.message else ""

    def as_json(self) -> dict[str, Any]:
        return {"message": self.message, "values": dict(self.values)}


def text(message: str, **values: Any) -> FindingText:
    """Return a text of a message that `gettext_noop` marks. Values are shortened, because others may have sent them."""
    shown = {name: value[:MAX_TEXT] if isinstance(value, str) else value for name, value in values.items()}
    return FindingText(message, shown)


@dataclass(frozen=True)
class HealthFinding:
    state: FindingState
    found: FindingText
    fix: FindingText = field(default_factory=FindingText)

    def as_json(self) -> dict[str, Any]:
        return {"state": str(self.state), "found": self.found.as_json(), "fix": self.fix.as_json()}


def from_json(value: Mapping[str, Any]) -> HealthFinding:
    found, fix = (FindingText(value[part]["message"], value[part]["values"]) for part in ("found", "fix"))
    return HealthFinding(FindingState(value["state"]), found, fix)


def ok(message: str, **values: Any) -> HealthFinding:
    return HealthFinding(FindingState.OK, text(message, **values))


def warning(found: FindingText, fix: FindingText) -> HealthFinding:
    return HealthFinding(FindingState.WARNING, found, fix)


def problem(found: FindingText, fix: FindingText) -> HealthFinding:
    return HealthFinding(FindingState.PROBLEM, found, fix)


def unknown(message: str, **values: Any) -> HealthFinding:
    return HealthFinding(FindingState.UNKNOWN, text(message, **values))


def needs_database() -> HealthFinding:
    return unknown(gettext_noop("not checked, because the database does not answer"))


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = f" + {len(names) - NAMES_SHOWN}" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more
