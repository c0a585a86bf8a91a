"""The inbox of contradictions: pairs of texts that a caller may read, and the verdicts on them.

A pair is open if both memories are active, their texts are those that were compared, they hold in no different scopes,
and nobody has settled the pair. What a caller has proposed is open for others, and not for the caller.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.embedded import LocalCatalog
from knowledge.models import Contradiction, PairVerdict, Settlement, SettlementState
from memories.models import MemoryRecord, Status
from memories.models.record import readable_by
from memories.validity.scopes.choices import labels

Row = TypeVar("Row", Contradiction, Settlement)
MAX_TEXT = 2_000  # characters of a description that a page shows


def readable(caller: Caller, rows: QuerySet[Row]) -> QuerySet[Row]:
    """Filter to the pairs of which the caller may read both texts."""
    if caller.is_admin:  # their rule is Q(), and `x | Q()` is x, which would restrict them
        return rows
    return rows.filter(readable_by(caller, "first__"), Q(second__isnull=True) | readable_by(caller, "second__"))


def contradictions(caller: Caller) -> QuerySet[Contradiction]:
    """Return the contradictions that are open for the caller, newest first."""
    rows = open_pairs(readable(caller, Contradiction.objects.select_related("first", "second")))
    own = standing_verdicts().filter(by=caller.email, state=SettlementState.PROPOSED)
    return rows.exclude(Exists(own)).defer("first__search", "second__search")


def open_pairs(rows: QuerySet[Contradiction]) -> QuerySet[Contradiction]:
    """Filter to pairs of active memories with the compared texts, on which there is no standing verdict."""
    rows = rows.filter(first__status=Status.ACTIVE, first__content_key=F("first_key"))
    rows = rows.filter(Q(second__isnull=True) | Q(second__status=Status.ACTIVE, second__content_key=F("second_key")))
    differ = ~Q(first__scope="") & ~Q(second__scope="") & ~Q(first__scope=F("second__scope"))
    rows = rows.exclude(Q(second__isnull=False) & differ)
    return rows.exclude(Exists(standing_verdicts().filter(_counts())))


def standing_verdicts() -> QuerySet[Settlement]:
    """Return the verdicts on the outer query's contradiction that nobody has undone."""
    same = Q(first=OuterRef("first"), first_key=OuterRef("first_key"), second_key=OuterRef("second_key"))
    with_memory = Q(second__isnull=False, second=OuterRef("second"))
    with_catalog = Q(second__isnull=True, urn=OuterRef("urn"), column=OuterRef("column"))
    return Settlement.objects.filter(same & (with_memory | with_catalog), undone_at__isnull=True)


def _counts() -> Q:
    """Return the condition for verdicts that close a pair.

    If both memories hold, their scopes close the pair, so that it is open again if they no longer differ.
    """
    of_scope = Q(verdict=PairVerdict.BOTH, second__isnull=True, first_scope=OuterRef("first__scope"))
    return Q(state=SettlementState.DECIDED) & (~Q(verdict=PairVerdict.BOTH) | of_scope)


def contradiction(caller: Caller, contradiction_id: UUID) -> Contradiction:
    """Return a contradiction, open or not. Raises NotFound if the caller may not read both texts."""
    found = readable(caller, Contradiction.objects.select_related("first", "second")).filter(pk=contradiction_id)
    row = found.defer("first__search", "second__search").first()
    if row is None:
        raise NotFound(gettext("no such contradiction"), field="contradiction_id")
    return row


def verdicts_on(pairs: Sequence[Contradiction]) -> dict[UUID, list[Settlement]]:
    """Return the standing verdicts on each pair, the newest first."""
    wanted = {pair_key(pair): pair.pk for pair in pairs}
    rows = Settlement.objects.filter(first__in={pair.first_id for pair in pairs}, undone_at__isnull=True)
    found: dict[UUID, list[Settlement]] = {}
    for row in rows.order_by("-at"):
        if pk := wanted.get(pair_key(row)):
            found.setdefault(pk, []).append(row)
    return found


def pair_key(pair: Contradiction | Settlement) -> tuple[object, ...]:
    return (pair.first_id, pair.second_id, pair.urn, pair.column, pair.first_key, pair.second_key)


def settlements(caller: Caller) -> QuerySet[Settlement]:
    """Return the caller's verdicts on pairs that the caller may still read, the newest first."""
    rows = readable(caller, Settlement.objects.filter(by=caller.email).select_related("first", "second"))
    return rows.defer("first__search", "second__search")


# -- the texts of the catalog -----------------------------------------------------------------------------------


def text_key(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def descriptions_of(urn: str) -> dict[str, str]:
    """Return the descriptions of an entity of the local catalog, or of the copy of DataHub.

    The key is a column's name, or "" for the entity itself.
    """
    return all_descriptions([urn])[urn]


def all_descriptions(urns: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the descriptions of each entity, as `descriptions_of` does, with one read."""
    entities = entity_view.load_entities(LocalCatalog(), urns) if urns else {}
    return {urn: {} if entity.removed else _descriptions(entity) for urn, entity in entities.items()}


def _descriptions(entity: entity_view.EntityView) -> dict[str, str]:
    columns = {column.simple_path: column.description for column in entity.columns if column.description}
    return {**columns, **({"": entity.description} if entity.description else {})}


@dataclass(frozen=True)
class ShownPair:
    """A pair as it is shown. `text` is what the catalog says, if the pair is about the catalog."""

    pair: Contradiction
    text: str = ""
    verdicts: Sequence[Settlement] = ()
    scopes: dict[str, str] = field(default_factory=dict)  # scopes of the pair and the verdicts → labels

    @property
    def place(self) -> str:
        """Return the name of the described entity or column, or "" for a pair of memories."""
        if not self.pair.urn:
            return ""
        name = entity_view.short_name(self.pair.urn)
        return f"{name}.{self.pair.column}" if self.pair.column else name


def shown_pairs(pairs: Sequence[Contradiction]) -> list[ShownPair]:
    """Return the pairs with what is shown of them. Left out are those whose description has changed since."""
    described = all_descriptions(sorted({pair.urn for pair in pairs if pair.urn}))
    verdicts = verdicts_on(pairs) if pairs else {}
    memories: list[MemoryRecord] = [memory for pair in pairs for memory in (pair.first, pair.second) if memory]
    scopes = [memory.scope for memory in memories]
    for row in itertools.chain.from_iterable(verdicts.values()):
        scopes += [row.first_scope, row.second_scope]
    names = labels(scopes)
    found = []
    for pair in pairs:
        text = described.get(pair.urn, {}).get(pair.column, "") if pair.urn else ""
        if pair.urn and text_key(text) != pair.second_key:
            continue
        found.append(ShownPair(pair, text[:MAX_TEXT], verdicts.get(pair.pk, []), names))
    return found
