"""Conditions of the catalog on which memories may depend: an unresolved incident, or a deprecated entity.

The state that was last read counts while the catalog is unavailable, or no longer has the incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from django.utils.translation import gettext

from foundation.database.identity import service
from foundation.operations.errors import Invalid
from foundation.operations.fields import EntityUrn
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.interface import Aspect, make_urn
from memories.models import MemoryRecord
from memories.validity.rules import ConditionKind, ConditionState
from memories.writing.validity import end_condition, renew_condition

INCIDENT, DEPRECATED = "incident", "deprecated"
ASPECTS = {INCIDENT: "incidentInfo", DEPRECATED: "deprecation"}
CHUNK = 500  # maximum number of entities that are read at once
RESOLVED = "RESOLVED"


def condition_kinds() -> dict[str, ConditionKind]:
    return {INCIDENT: partial(_state, INCIDENT), DEPRECATED: partial(_state, DEPRECATED)}


def _state(kind: str, name: str) -> ConditionState:
    """Read a condition that a person states. Raises CatalogUnavailable if it can't be read."""
    urn = make_urn("incident", name) if kind == INCIDENT else validate(EntityUrn, name, "valid_while")
    has_ended = _has_ended(kind, get_readable_catalog().read([urn], [ASPECTS[kind]])[urn])
    if has_ended is None:
        raise Invalid(
            gettext("the catalog has no incident %(name)r") % {"name": name[:120]},
            field="valid_while",
            allowed=gettext("an unresolved incident of the catalog"),
        )
    return ConditionState(urn, has_ended)


def _has_ended(kind: str, aspects: Mapping[str, Aspect]) -> bool | None:
    """Return whether a condition has ended, or None if the catalog does not know."""
    value = aspects[ASPECTS[kind]].value
    if kind == DEPRECATED:
        return not (value or {}).get("deprecated")
    return None if value is None else (value.get("status") or {}).get("state") == RESOLVED


@service("freshness")
def check_conditions(caller: Caller, urns: Iterable[str] | None = None) -> int:
    """End or renew the conditions about these entities, or about all. Return the number of memories concerned.

    Raises CatalogUnavailable or CatalogRefused.
    """
    conditions = MemoryRecord.objects.exclude(valid_while="").order_by().values_list("valid_while", flat=True)
    stated = {tuple(text.split(":", 1)) for text in conditions.distinct()}
    chosen = None if urns is None else set(urns)
    count = 0
    for kind, aspect in ASPECTS.items():
        wanted = sorted(of for stated_kind, of in stated if stated_kind == kind and (chosen is None or of in chosen))
        for start in range(0, len(wanted), CHUNK):
            read = get_readable_catalog().read(wanted[start : start + CHUNK], [aspect])
            for urn, aspects in read.items():
                count += _apply(caller, kind, urn, aspects)
    return count


def _apply(caller: Caller, kind: str, urn: str, aspects: Mapping[str, Aspect]) -> int:
    has_ended = _has_ended(kind, aspects)
    condition = f"{kind}:{urn}"
    name = entity_view.short_name(urn)
    if has_ended is None:
        return 0
    if kind == INCIDENT:
        reason = f"the incident {name} {'was resolved' if has_ended else 'is open again'}"
    else:
        reason = f"{name} is {'no longer' if has_ended else 'again'} deprecated"
    spread = end_condition if has_ended else renew_condition
    return spread(caller, condition=condition, reason=reason)
