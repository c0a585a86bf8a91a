"""Planning of requested changes: the writes that they need, and the current value at each path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from foundation.operations.errors import Conflict, NotFound
from knowledge.catalog import entity_view
from knowledge.catalog.interface import Aspect, Catalog, Value, entity_type
from knowledge.catalog.json_patch import ABSENT, equal, patched, value_at
from knowledge.changesets.change_request import CHANGE_TYPES, ChangeStep, Context, Request, add
from knowledge.changesets.change_types import check_entity_type
from knowledge.changesets.new_entities import UNDO_CREATION


@dataclass(frozen=True)
class Planned:
    """A planned write. `before` is ABSENT if there is no value; an empty value is not ABSENT."""

    request: int
    change_type: str
    step: ChangeStep
    before: Any

    @property
    def is_noop(self) -> bool:
        if self.step.write.operation == "remove":
            return self.before is ABSENT
        return self.before is not ABSENT and equal(self.before, self.step.write.value)


def plan(
    catalog: Catalog,
    urn: str,
    requests: Sequence[Request],
    actor: str,
    changeset: str,
    authors: Sequence[str] = (),
) -> list[Planned]:
    """Return the writes that the requests need, in order, each with the value before it. Nothing is written.

    The value before a write includes the effect of earlier writes in the plan. Raises Invalid, NotFound or Conflict if
    a change can't be made, and CatalogUnavailable or CatalogRefused if the catalog can't be read.
    """
    for request in requests:
        check_entity_type(request, urn)
    context = Context(
        urn,
        _load_entity(catalog, urn),
        actor,
        changeset,
        lambda name: _find_term(catalog, name),
        lambda target: bool(catalog.existing([target])),
        lambda target, aspect: catalog.read([target], [aspect])[target][aspect].value,
        tuple(authors),
    )
    steps = [
        (number, request, step)
        for number, request in enumerate(requests)
        for step in _with_undeletion(catalog, CHANGE_TYPES[request.change_type].plan(request, context))
    ]
    values = _current_values(catalog, [step for _, _, step in steps])
    planned = []
    undeleted = {step.write.urn for _, _, step in steps if step.write.aspect == "status"}
    for number, request, step in steps:
        write = step.write
        key = (step.write.urn, step.write.aspect)
        before = value_at(write.aspect, values[key], write.path)
        exists = step.creates and before is not ABSENT and write.urn not in undeleted
        if exists and not equal(before, write.value):
            raise Conflict(gettext("%(urn)s already exists") % {"urn": write.urn}, field="changes")
        planned.append(Planned(number, request.change_type, step, before))
        values[key] = patched(write.aspect, values[key], write.path, write.operation, write.value)
    _require_documents(catalog, planned)
    return planned


def _with_undeletion(catalog: Catalog, steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """Add a step that undeletes each entity to create that was soft-deleted before, for example by a rollback."""
    creations = [step for step in steps if step.creates and step.write.aspect not in UNDO_CREATION]
    read = catalog.read([step.write.urn for step in creations], ["status"]) if creations else {}
    removed_urns = [urn for urn, aspects in read.items() if (aspects["status"].value or {}).get("removed")]
    return [*steps, *(add(urn, "status", ("removed",), False) for urn in removed_urns)]


def _load_entity(catalog: Catalog, urn: str) -> entity_view.EntityView | None:
    if not urn:
        return None
    entity = entity_view.load_entity(catalog, urn)
    if not entity.is_known or entity.removed:
        problem = (
            gettext("%(urn)s was removed from the catalog")
            if entity.is_known
            else gettext("%(urn)s is not in the catalog")
        )
        raise NotFound(problem % {"urn": urn}, field="entity_urn")
    return entity


def _current_values(catalog: Catalog, steps: Sequence[ChangeStep]) -> dict[tuple[str, str], Value | None]:
    names_by_urn: dict[str, set[str]] = {}
    for step in steps:
        names_by_urn.setdefault(step.write.urn, set()).add(step.write.aspect)
    aspects = sorted(set().union(*names_by_urn.values()))
    read: dict[str, dict[str, Aspect]] = catalog.read(list(names_by_urn), aspects)
    return {(urn, aspect): read[urn][aspect].value for urn, names in names_by_urn.items() for aspect in names}


def _find_term(catalog: Catalog, name: str) -> str:
    matches = catalog.search(name, types=["glossaryTerm"], limit=20)
    return next((term.urn for term in matches if term.name.casefold() == name.casefold()), "")


def _require_documents(catalog: Catalog, planned: Sequence[Planned]) -> None:
    changing = {"update_context_document", "remove_context_document"}
    documents = {change.step.write.urn for change in planned if change.change_type in changing}
    for missing in documents - catalog.existing(sorted(documents)) if documents else set():
        raise NotFound(
            gettext("there is no %(type)s %(urn)s") % {"type": entity_type(missing) or "document", "urn": missing},
            field="changes.target",
        )
