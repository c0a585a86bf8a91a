"""Readable diffs of catalog changes: title, text before and after, outcome."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.utils.translation import gettext, gettext_noop

from foundation.operations.display import show_invisible
from knowledge.catalog import entity_view
from knowledge.catalog.interface import entity_type
from knowledge.catalog.json_patch import ABSENT
from knowledge.changesets.planning import Planned
from knowledge.models import CatalogEntity, Change, ChangeOutcome

TITLES = {
    "globalTags": gettext_noop("Tag"),
    "glossaryTerms": gettext_noop("Glossary term"),
    "ownership": gettext_noop("Owner"),
    "institutionalMemory": gettext_noop("Link"),
    "structuredProperties": gettext_noop("Property"),
    "domains": gettext_noop("Domain"),
    "deprecation": gettext_noop("Deprecation"),
    "glossaryTermInfo": gettext_noop("Glossary term"),
    "documentInfo": gettext_noop("Document"),
    "incidentInfo": gettext_noop("Incident"),
    "queryProperties": gettext_noop("Query"),
    "promptInfo": gettext_noop("Prompt"),
    "status": gettext_noop("Status"),
}
# Aspects that are written along with a document or query and that tell a reader nothing.
BOOKKEEPING = {"documentSettings", "subTypes", "querySubjects"}
# Keys within values that tell a reader nothing.
STAMPS = {"createStamp", "created", "lastModified", "lastUpdated", "actor", "source", "decommissionTime", "termSource"}


@dataclass(frozen=True)
class Readable:
    """One change as text. `had_before` means that there was a value; `removes` means that none is left."""

    title: str
    urn: str
    before: str
    after: str
    had_before: bool
    removes: bool
    outcome: str
    error: str = ""
    position: int = 0
    ingested: bool = False  # `before` is an ingested text, which stays in place but is no longer shown
    name: str = ""

    @property
    def entity(self) -> str:
        return self.name or entity_view.short_name(self.urn)

    @property
    def kind(self) -> str:
        return entity_type(self.urn)


def of_planned(
    planned: Sequence[Planned], entities: Mapping[str, entity_view.EntityView] | None = None
) -> list[Readable]:
    """Return planned changes as text, without those of BOOKKEEPING aspects.

    If nobody has edited a description yet, the ingested description is shown as the text before.
    """
    changes = []
    names = names_in([(change.step.write.urn, change.step.write.value) for change in planned])
    for position, change in enumerate(planned):
        write = change.step.write
        if write.aspect in BOOKKEEPING:
            continue
        before = change.before
        ingested = False
        if before is ABSENT and write.path[-1:] == ("description",):
            before = ingested_description((entities or {}).get(write.urn), write.path)
            ingested = before is not ABSENT
        changes.append(
            Readable(
                title=title(write.aspect, write.path),
                urn=write.urn,
                before="" if before is ABSENT else text_of(before, names),
                after=text_of(write.value, names),
                had_before=before is not ABSENT,
                removes=write.operation == "remove",
                outcome=ChangeOutcome.NOOP if change.is_noop else ChangeOutcome.PLANNED,
                position=position,
                ingested=ingested,
                name=names.get(write.urn, ""),
            )
        )
    return changes


def ingested_description(entity: entity_view.EntityView | None, path: Sequence[str]) -> Any:
    """Return the ingested description at this path, or ABSENT for other paths or if there is none.

    Only call this if there is no edited description, because that would be returned instead.
    """
    if entity is None or tuple(path[-1:]) != ("description",):
        return ABSENT
    if len(path) == 1:
        return entity.description or ABSENT
    column = entity.column(path[1])
    return (column.description if column else "") or ABSENT


def of_changes(changes: Iterable[Change], *, back: bool = False) -> list[Readable]:
    """Return changes as text. With `back`, each leads from the written value back to the earlier one."""
    rows = [change for change in changes if change.aspect not in BOOKKEEPING or change.error]
    names = names_in([(change.urn, change.written) for change in rows])
    return [_of_change(change, names, back) for change in rows]


def _of_change(change: Change, names: Mapping[str, str], back: bool) -> Readable:
    before = text_of(change.before, names) if change.had_before else ""
    after = text_of(change.written, names)
    return Readable(
        title=title(change.aspect, change.path),
        urn=change.urn,
        before=after if back else before,
        after=before if back else after,
        had_before=change.operation != "remove" if back else change.had_before,
        removes=not change.had_before if back else change.operation == "remove",
        outcome=change.outcome,
        error=change.error,
        position=change.position,
        name=names.get(change.urn, ""),
    )


def names_in(writes: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """Return display names by URN of the terms, documents, incidents, queries and prompts in (URN, value) pairs.

    A name in a value takes precedence over the name in the catalog.
    """
    text = json.dumps([[urn, value] for urn, value in writes], default=str)
    urns = set(re.findall(r"urn:li:(?:glossaryTerm|document|incident|query|prompt):[^\"\\,)\s]+", text))
    if not urns:
        return {}
    entities = CatalogEntity.objects.filter(urn__in=urns).exclude(name="")
    names = {urn: qualified or name for urn, qualified, name in entities.values_list("urn", "qualified_name", "name")}
    for urn, value in writes:
        if isinstance(value, Mapping) and (name := value.get("name") or value.get("title")):
            names[urn] = str(name)
    return names


def title(aspect: str, path: Sequence[str]) -> str:
    """Return a label for a path of an aspect, such as `Description of column amount`."""
    if aspect == "editableSchemaMetadata" and len(path) > 2:
        label = gettext("Description") if path[2] == "description" else _label(path[2])
        return gettext("%(label)s of column %(column)s") % {"label": label, "column": entity_view.simple_path(path[1])}
    if path and path[-1] == "description":
        return gettext("Description")
    if path and path[-1] == "definition":
        return gettext("Definition")
    return _label(aspect)


def _label(aspect: str) -> str:
    return gettext(TITLES[aspect]) if aspect in TITLES else words(aspect)


def words(name: str) -> str:
    """Return `Editable thing` for `editableThing`."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in name)
    return spaced.strip().capitalize()


def text_of(value: Any, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a value as text, with names instead of URNs and without the keys in STAMPS."""
    if isinstance(value, Mapping):
        return _lines(value, names)
    if isinstance(value, list):
        return ", ".join(text_of(item, names) for item in value)
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    text = "" if value is None else show_invisible(str(value))
    return names.get(text) or entity_view.short_name(text) if text.startswith("urn:li:") else text


def _lines(value: Mapping[str, Any], names: Mapping[str, str]) -> str:
    fields = {name: item for name, item in value.items() if name not in STAMPS and item not in (None, "", [], {})}
    keys = {
        text_of(item, names)
        for name, item in fields.items()
        if name in ("tag", "urn", "propertyUrn", "string", "double")
    }
    if len(fields) == 1:
        return text_of(next(iter(fields.values())), names)
    if len(fields) == 2 and keys and "values" not in fields:
        (name,) = keys
        rest = next(text_of(item, names) for key, item in fields.items() if key not in ("tag", "urn", "propertyUrn"))
        return f"{name}: {rest}"
    return "\n".join(f"{words(name)}: {text_of(item, names)}" for name, item in fields.items())
