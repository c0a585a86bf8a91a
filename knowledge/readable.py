"""Catalog changes as people read them: what it is about, the text before and after, what became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from knowledge.catalog import facts
from knowledge.catalog.patch import ABSENT
from knowledge.catalog.port import entity_type
from knowledge.models import Change, ChangeOutcome
from knowledge.planning import Planned

TITLES = {
    "globalTags": "Tag",
    "glossaryTerms": "Glossary term",
    "ownership": "Owner",
    "institutionalMemory": "Link",
    "structuredProperties": "Property",
    "domains": "Domain",
    "deprecation": "Deprecation",
    "glossaryTermInfo": "Glossary term",
    "documentInfo": "Document",
    "documentSettings": "Document’s settings",
    "subTypes": "Kind",
    "incidentInfo": "Incident",
    "queryProperties": "Query",
    "querySubjects": "Query’s subjects",
    "promptInfo": "Prompt",
    "status": "Status",
}
# Bookkeeping inside of values, which tells a reader nothing.
STAMPS = {"createStamp", "created", "lastModified", "lastUpdated", "actor", "source", "decommissionTime", "termSource"}


@dataclass(frozen=True)
class Readable:
    """One change. Without `had_before` nothing stood there; with `removes` nothing will."""

    title: str
    urn: str
    before: str
    after: str
    had_before: bool
    removes: bool
    outcome: str
    error: str = ""
    position: int = 0
    ingested: bool = False  # the text before was written by ingestion, and stays there below ours

    @property
    def entity(self) -> str:
        return facts.short_name(self.urn)

    @property
    def kind(self) -> str:
        return entity_type(self.urn)


def of_planned(planned: Sequence[Planned], known: Mapping[str, facts.Facts] | None = None) -> list[Readable]:
    """Changes not made yet. A description that only ingestion wrote is shown as what stands there now."""
    shown = []
    for place, one in enumerate(planned):
        write = one.step.write
        before, ingested = one.before, False
        if before is ABSENT and write.path[-1:] == ("description",):
            before = _ingested((known or {}).get(write.urn), write.path)
            ingested = before is not ABSENT
        shown.append(
            Readable(
                title=title(write.aspect, write.path),
                urn=write.urn,
                before="" if before is ABSENT else text_of(before),
                after=text_of(write.value),
                had_before=before is not ABSENT,
                removes=write.operation == "remove",
                outcome=ChangeOutcome.NOOP if one.is_noop else ChangeOutcome.PLANNED,
                position=place,
                ingested=ingested,
            )
        )
    return shown


def _ingested(entity: facts.Facts | None, path: Sequence[str]) -> Any:
    if entity is None:
        return ABSENT
    if len(path) == 1:
        return entity.description or ABSENT
    column = entity.column(path[1])
    return (column.description if column else "") or ABSENT


def of_change(change: Change) -> Readable:
    return Readable(
        title=title(change.aspect, change.path),
        urn=change.urn,
        before=text_of(change.before) if change.had_before else "",
        after=text_of(change.written),
        had_before=change.had_before,
        removes=change.operation == "remove",
        outcome=change.outcome,
        error=change.error,
        position=change.position,
    )


def title(aspect: str, path: Sequence[str]) -> str:
    """What a path of an aspect is called: `Description of column amount`."""
    if aspect == "editableSchemaMetadata" and len(path) > 2:
        what = "Description" if path[2] == "description" else TITLES.get(path[2], words(path[2]))
        return f"{what} of column {facts.simple_path(path[1])}"
    if path and path[-1] in ("description", "definition"):
        return path[-1].capitalize()
    return TITLES.get(aspect, words(aspect))


def words(name: str) -> str:
    """`editableThing` as `Editable thing`."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
    return spaced.strip().capitalize()


def text_of(value: Any) -> str:
    """A value in plain words: names instead of URNs, a line a field, no bookkeeping."""
    if isinstance(value, Mapping):
        return _lines(value)
    if isinstance(value, list):
        return ", ".join(text_of(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = "" if value is None else str(value)
    return facts.short_name(text) if text.startswith("urn:li:") else text


def _lines(value: Mapping[str, Any]) -> str:
    told = {name: item for name, item in value.items() if name not in STAMPS and item not in (None, "", [], {})}
    names = {text_of(item) for name, item in told.items() if name in ("tag", "urn", "propertyUrn", "string", "double")}
    if len(told) == 1:
        return text_of(next(iter(told.values())))
    if len(told) == 2 and names and "values" not in told:
        (name,) = names or {""}
        rest = next(text_of(item) for key, item in told.items() if key not in ("tag", "urn", "propertyUrn"))
        return f"{name}: {rest}"
    return "\n".join(f"{words(name)}: {text_of(item)}" for name, item in told.items())


def back(change: Change) -> Readable:
    """The way back of a change: from what was written to what stood there before."""
    return Readable(
        title=title(change.aspect, change.path),
        urn=change.urn,
        before=text_of(change.written),
        after=text_of(change.before) if change.had_before else "",
        had_before=change.operation != "remove",
        removes=not change.had_before,
        outcome=change.outcome,
        position=change.position,
    )
