"""Rows of the database that the palette finds by name: one statement for all kinds, each limited to what one may read.

Memories are found by recall (palette.py). Here, they are only looked up by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import Case, F, IntegerField, Model, Q, QuerySet, TextField, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import MD5, Cast, Coalesce, Concat, Left, NullIf
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy

from analysis.models import Session
from foundation.operations.display import show_invisible
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.graph.models import Entity, Graph
from knowledge.insights import queries as curation
from knowledge.models import CatalogEntity, Insight, InsightState
from memories.conversation.statistics import living
from memories.models import MemoryRecord
from memory_project.models import SavedView, User
from memory_project.portal.search.matching import BEST_TEXT, CONTAINS, TEXT_STEP, RowMatch, score

MAX_OF_KIND = 5
MAX_LABEL = 300
MAX_WORDS = 8  # maximum number of words compared; longer texts are searched by their first words
MAX_NODE_TEXT = 3  # a graph's trigram index needs at least this many characters


@dataclass(frozen=True)
class PaletteKind:
    """A kind of row.

    `rows` returns what the caller may read. `label` is the name shown, `place` what `link` needs besides the key.
    Rows are searched in the fields `searched`; a kind without such fields is only looked up by key.
    """

    title: Promise
    rows: Callable[[Caller], QuerySet[Any]]
    key: str
    label: Combinable
    place: Combinable
    link: Callable[[str, str], str]
    searched: tuple[str, ...] = ()
    shows_place: bool = False
    bonus: int = 0  # added to scores, because names of few things are more likely meant than one of many texts


def _address(route: str, **params: str) -> str:
    return f"{reverse(route)}?{urlencode(params)}"


def _insights(caller: Caller) -> QuerySet[Any]:
    return Insight.objects.visible_to(caller).exclude(state=InsightState.SUPERSEDED)


def _personas(caller: Caller) -> QuerySet[Any]:
    rows = Persona.objects.all()
    return rows if caller.is_admin else rows.filter(name__in=caller.personas)


def _people(caller: Caller) -> QuerySet[Any]:
    """Return people with an active account. Callers who aren't admins get only people of their personas."""
    rows = User.objects.filter(is_active=True)
    if caller.is_admin:
        return rows
    return rows.filter(pk__in=User.objects.filter(personas__name__in=caller.personas).values("pk"))


def _nodes(caller: Caller) -> QuerySet[Any]:
    graphs = Graph.objects.visible_to(caller).values("pk")
    return Entity.objects.filter(graph__in=graphs, deleted_at=None, is_placeholder=False)


def _conversations(caller: Caller) -> QuerySet[Any]:
    rows = living(caller.email).exclude(conversation_id="").order_by("conversation_id").distinct("conversation_id")
    return rows.annotate(digest=MD5("conversation_id"))  # a key without the name, which may be a text


def _node_address(key: str, place: str) -> str:
    graph, _, number = place.partition("~")
    return _address("graph", graph=UUID(graph).hex, node=number)


def _view_address(key: str, place: str) -> str:
    page, _, query = place.partition("?")
    return f"{reverse(page)}?{query}"


def _record_address(key: str, place: str) -> str:
    return reverse("memory", args=[UUID(key)])


def _first(field: str, other: str) -> Coalesce:
    """Return the field, or the other one if it is empty."""
    return Coalesce(NullIf(field, Value("")), other, output_field=TextField())


NOTHING = Value("")
NODE_PLACE = Concat(Cast("graph_id", TextField()), Value("~"), Cast("number", TextField()), output_field=TextField())
KINDS: dict[str, PaletteKind] = {
    "view": PaletteKind(
        gettext_lazy("Saved view"), lambda caller: SavedView.objects.filter(person__email=caller.email),
        "pk", F("name"), Concat("page", Value("?"), "query", output_field=TextField()), _view_address, ("name",),
        bonus=6,
    ),
    "entity": PaletteKind(
        gettext_lazy("Entity"), lambda caller: CatalogEntity.objects.filter(removed=False),
        "urn", _first("qualified_name", "name"), F("entity_type"),
        lambda key, place: _address("entity", urn=key), ("qualified_name", "name", "urn"),
        shows_place=True, bonus=4,
    ),
    "insight": PaletteKind(
        gettext_lazy("Insight"), _insights, "pk", Left("record__content", MAX_LABEL), F("state"),
        _record_address, ("record__content",),
    ),
    "node": PaletteKind(
        gettext_lazy("Graph"), _nodes, "pk", F("name"),
        NODE_PLACE, _node_address, ("folded",), bonus=2,
    ),
    "persona": PaletteKind(
        gettext_lazy("Persona"), _personas, "name", _first("title", "name"), NOTHING,
        lambda key, place: _address("my-knowledge", persona=key), ("name", "title"), bonus=3,
    ),
    "person": PaletteKind(
        gettext_lazy("Person"), _people, "pk", _first("name", "email"), F("email"),
        lambda key, place: _address("my-knowledge", by=place), ("name", "email"),
        shows_place=True, bonus=3,
    ),
    "conversation": PaletteKind(
        gettext_lazy("Conversation"), _conversations, "digest", F("conversation_id"), F("conversation_id"),
        lambda key, place: _address("conversation", id=place), ("conversation_id",), bonus=2,
    ),
    "analysis": PaletteKind(
        gettext_lazy("Analysis"), lambda caller: Session.objects.owned_by(caller), "pk", F("analysis_id"), NOTHING,
        lambda key, place: reverse("analysis", args=[key]), ("analysis_id",), bonus=2,
    ),
    "memory": PaletteKind(
        gettext_lazy("Memory"), lambda caller: MemoryRecord.objects.visible_to(caller), "pk",
        Left("content", MAX_LABEL), NOTHING, _record_address,
    ),
}  # fmt: skip
REVIEWED = {InsightState.PENDING, InsightState.APPROVED}  # states in which a curator still decides


def search(caller: Caller, text: str) -> list[RowMatch]:
    """Return the best matches of each kind, at most MAX_OF_KIND of each."""
    words = text.split()[:MAX_WORDS]
    parts = [
        _part(name, kind.rows(caller).filter(_has(words, kind.searched)))
        .annotate(place_in_kind=_rank(text, kind))
        .order_by(*(("conversation_id",) if name == "conversation" else ("place_in_kind", "label")))
        .values_list("kind", "key", "label", "place")[:MAX_OF_KIND]
        for name, kind in KINDS.items()
        if kind.searched and (name != "node" or max(map(len, words)) >= MAX_NODE_TEXT)
    ]
    matches = [_match(caller, *row, text=text) for row in _union(parts)]
    # An insight precedes the memory of the same rank, which may be the same text.
    insights = (BEST_TEXT + 1 - TEXT_STEP * rank for rank in range(MAX_OF_KIND))
    return [match.with_score(next(insights)) if match.key.startswith("insight:") else match for match in matches]


def by_keys(caller: Caller, keys: Iterable[str]) -> dict[str, RowMatch]:
    by_kind: dict[str, list[str]] = {}
    for key in keys:
        name, _, rest = key.partition(":")
        if name in KINDS and rest:
            by_kind.setdefault(name, []).append(rest)
    parts = []
    for name, values in by_kind.items():
        kind = KINDS[name]
        rows = kind.rows(caller)
        # The column itself is compared, not its text, so that its index is used.
        rows = rows.filter(**{f"{kind.key}__in": _valid(rows.model, kind.key, values)})
        parts.append(_part(name, rows).values_list("kind", "key", "label", "place"))
    return {match.key: match for match in (_match(caller, *row) for row in _union(parts))}


def _valid(model: type[Model], name: str, values: Iterable[str]) -> list[object]:
    """Return the values that the field can have. Others come from a browser whose storage was changed."""
    if name == "digest":
        return list(values)
    field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    valid = []
    for value in values:
        try:
            valid.append(field.clean(value, None))  # type: ignore[union-attr]  # these are fields of the model
        except ValidationError:
            continue
    return valid


def memory_match(record: MemoryRecord, points: float) -> RowMatch:
    kind = KINDS["memory"]
    key = str(record.pk)
    return RowMatch(
        f"memory:{key}", record.content[:MAX_LABEL], _record_address(key, ""), str(kind.title), points, f"record:{key}"
    )


def _part(name: str, rows: QuerySet[Any]) -> QuerySet[Any]:
    kind = KINDS[name]
    part: QuerySet[Any] = rows.annotate(
        kind=Cast(Value(name, TextField()), TextField()),
        key=Cast(F(kind.key), TextField()),
        label=Cast(kind.label, TextField()),
        place=Cast(kind.place, TextField()),
    )
    return part


def _union(parts: Sequence[QuerySet[Any]]) -> list[tuple[str, str, str, str]]:
    if not parts:
        return []
    return list(parts[0].union(*parts[1:], all=True)) if len(parts) > 1 else list(parts[0])


def _has(words: Sequence[str], fields: Sequence[str]) -> Q:
    """Return the condition for rows that have each word in one of the fields."""
    return reduce(and_, (reduce(or_, (Q(**{f"{field}__icontains": word}) for field in fields)) for word in words), Q())


def _rank(text: str, kind: PaletteKind) -> Case:
    """Return the order in which rows of a kind are worth showing. score() compares them with those of other kinds."""
    fields = kind.searched
    return Case(
        When(reduce(or_, (Q(**{f"{field}__iexact": text}) for field in fields)), then=Value(0)),
        When(reduce(or_, (Q(**{f"{field}__iendswith": f".{text}"}) for field in fields)), then=Value(1)),
        When(reduce(or_, (Q(**{f"{field}__istartswith": text}) for field in fields)), then=Value(2)),
        default=Value(3),
        output_field=IntegerField(),
    )


def _match(caller: Caller, name: str, key: str, label: str, place: str, text: str = "") -> RowMatch:
    kind = KINDS[name]
    link = kind.link(key, place)
    if name == "insight" and place in REVIEWED and curation.may_curate(caller):
        link = reverse("review-one", args=[UUID(key)])
    # A row that matches by a field that isn't shown, such as an address, is worth as much as one that contains the text
    points = (max(score(label, text), CONTAINS - 5) + kind.bonus) if text else 0
    hint = f"{kind.title} · {show_invisible(place)}" if kind.shows_place and place != label else str(kind.title)
    target = f"record:{key}" if name in ("insight", "memory") else f"{name}:{key}"
    return RowMatch(f"{name}:{key}", label[:MAX_LABEL], link, hint, points, target)
