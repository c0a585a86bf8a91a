"""Lookup of catalog entities by a name that a user entered: `fernhill.sales.orders`, or only its end, `orders`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from django.conf import settings
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.operations.fields import Urn
from foundation.operations.operation import validate
from knowledge.catalog.mirror import last_copied_at
from knowledge.models import CatalogEntity
from memories.rendering import entity_name

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


MAX_COMPARED = 2_000  # names that are compared with a misspelt one


def urn_of(text: str) -> str:
    """Return the URN of the entity with this name. A valid URN is returned unchanged, without a query.

    A name is the entity's qualified name, its name, or the end of its qualified name after a dot. A whole qualified
    name with a dot takes precedence; the case of its letters only matters if it is all that distinguishes entities.
    A single word is ambiguous if several entities have it, whatever its case. Removed entities have no name. Raises
    Invalid if the URN is not valid, or if the name is unknown or ambiguous. For a name, the message lists similar names
    or the matching entities.
    """
    text = text.strip()
    if text.startswith("urn:"):
        urn: str = validate(Urn, text, "entity_urns")
        return urn
    if settings.DATAHUB_GMS_URL and last_copied_at() is None:
        raise Invalid(
            gettext("%(text)r is a name, and names are known only once DataHub has been copied") % {"text": text[:80]},
            field="entity_urns",
            allowed=gettext("the URN of the entity"),
        )
    best = _best_matches(text)
    if len(best) == 1:
        return best[0].urn
    if best:
        candidates = "; ".join(
            f"{row} ({row.platform or row.entity_type}): {row.urn}" for row in best[:CANDIDATES_SHOWN]
        )
        rest = len(best) - CANDIDATES_SHOWN
        more = "; " + gettext("and %(count)s more") % {"count": rest} if rest > 0 else ""
        raise Invalid(
            gettext("%(text)r is ambiguous") % {"text": text[:80]}, field="entity_urns", allowed=candidates + more
        )
    similar = "; ".join(str(row) for row in entities_like(text)[:CANDIDATES_SHOWN]) or "; ".join(_misspelt(text))
    raise Invalid(
        gettext("%(text)r is not in the catalog") % {"text": text[:80]},
        field="entity_urns",
        allowed=similar or gettext("the name or URN of a catalog entity"),
    )


def unknown_note(urns: Sequence[str]) -> str:
    """Return a sentence that names the URNs that the catalog lacks, with the nearest names, or "".

    A URN is not checked when it is stored, because the catalog may get the entity later. An empty catalog, and one that
    has not been copied from DataHub, say nothing.
    """
    rows = CatalogEntity.objects.filter(removed=False)
    known = set(rows.filter(urn__in=urns).values_list("urn", flat=True))
    unknown = [urn for urn in urns if urn not in known]
    if not unknown or not rows.exists() or (settings.DATAHUB_GMS_URL and last_copied_at() is None):
        return ""
    return "; ".join(f"{urn} is not in the catalog{_nearest(urn)}" for urn in unknown)


def _nearest(urn: str) -> str:
    names = _misspelt(entity_name(urn))[:1]
    return f": did you mean {names[0]}?" if names else ""


def _misspelt(text: str) -> list[str]:
    """Return qualified names that differ from the text by a slip of the pen."""
    lowered = text.lower()
    tail = lowered.rpartition(".")[2]
    rows = CatalogEntity.objects.filter(removed=False).exclude(tail="")
    same_start = Q(tail__startswith=tail[:2]) | Q(tail__endswith=tail[-3:])
    names: dict[str, str] = {}
    for qualified, last in rows.filter(same_start).values_list("qualified_name", "tail")[:MAX_COMPARED]:
        shortened = ".".join(qualified.lower().split(".")[-(lowered.count(".") + 1) :]) if qualified else last
        names.setdefault(shortened, qualified or last)
    return [names[each] for each in get_close_matches(lowered, names, n=CANDIDATES_SHOWN, cutoff=0.75)]


def _best_matches(name: str) -> list[CatalogEntity]:
    # The index on `tail` finds qualified names and their ends. Names are compared as a whole.
    lowered = name.lower()
    rows = CatalogEntity.objects.filter(removed=False).defer("search", "description", "columns")
    rows = rows.filter(Q(tail=lowered.rpartition(".")[2]) | Q(name__iexact=name)).order_by("qualified_name", "urn")
    by_rank: dict[int, list[CatalogEntity]] = {}
    for row in rows:
        by_rank.setdefault(_rank(row, name, lowered), []).append(row)
    return next((by_rank[rank] for rank in (0, 1, 2) if rank in by_rank), [])


def _rank(row: CatalogEntity, name: str, lowered: str) -> int:
    qualified = row.qualified_name or row.name
    if "." in name and lowered == qualified.lower():
        return 0 if name == qualified else 1
    is_end = qualified.lower().endswith(f".{lowered}")
    return 2 if is_end or lowered in (qualified.lower(), row.name.lower()) else 3
