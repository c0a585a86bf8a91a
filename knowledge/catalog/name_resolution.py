"""Lookup of catalog entities by a name that a user entered: `fernhill.sales.orders`, or only its end, `orders`."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from knowledge.models import CatalogEntity
from memories.contract.errors import Invalid
from memories.contract.fields import Urn
from memories.contract.operations import validate

CANDIDATES_SHOWN = 5


def entities_like(text: str, *, kinds: Sequence[str] = ()) -> QuerySet[CatalogEntity]:
    """Return the entities whose name or URN contains the text, best matches first.

    Names equal to the text come first, then names that end with it after a dot, then names that begin with it, then all
    other matches.
    """
    rows = CatalogEntity.objects.filter(removed=False).defer("search")
    if kinds:
        rows = rows.filter(entity_type__in=kinds)
    if not text:
        return rows.order_by("entity_type", "name", "urn")
    rank = Case(
        When(Q(qualified_name__iexact=text) | Q(name__iexact=text) | Q(urn=text), then=Value(0)),
        When(Q(qualified_name__iendswith=f".{text}"), then=Value(1)),
        When(Q(qualified_name__istartswith=text) | Q(name__istartswith=text), then=Value(2)),
        default=Value(3),
        output_field=IntegerField(),
    )
    matches = Q(qualified_name__icontains=text) | Q(name__icontains=text) | Q(urn__icontains=text)
    return rows.filter(matches).annotate(rank=rank).order_by("rank", "name", "urn")


def urn_of(text: str) -> str:
    """Return the URN of the entity with this name. A valid URN is returned unchanged.

    Raises Invalid if the URN is not valid, or if the name is unknown or ambiguous. For a name, the message lists
    similar names or the matching entities.
    """
    text = text.strip()
    if text.startswith("urn:li:"):
        urn: str = validate(Urn, text, "entity_urns")
        return urn
    exact = [row for row in entities_like(text)[: CANDIDATES_SHOWN + 1] if row.rank < 2]  # type: ignore[attr-defined]
    best = [row for row in exact if row.rank == exact[0].rank]  # type: ignore[attr-defined]  # annotated
    if len(best) == 1:
        return best[0].urn
    if best:
        candidates = "; ".join(f"{row} ({row.platform or row.entity_type})" for row in best[:CANDIDATES_SHOWN])
        raise Invalid(f"{text[:80]!r} is ambiguous", field="entity_urns", allowed=candidates)
    similar = "; ".join(str(row) for row in entities_like(text)[:CANDIDATES_SHOWN])
    raise Invalid(
        f"{text[:80]!r} is not in the catalog",
        field="entity_urns",
        allowed=similar or "the name or URN of a catalog entity",
    )
