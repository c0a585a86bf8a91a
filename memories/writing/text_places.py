"""The places in which people and agents write texts that may quote a memory: notes, findings, cached answers and so on.

Each app lists its places in `text_places` of its `memory_extension.py`. Each place has a text-search index, so that
texts with the words of an erased memory are found without reading all texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from django.contrib.postgres.search import SearchQuery
from django.db.models import BooleanField, F, Func, Model, Q, QuerySet, Value
from django.utils.crypto import salted_hmac

from foundation.people.caller import Caller
from memories import extensions
from memories.extensions import TextPlace
from memories.models import Batch, Feedback, MemoryRecord, MemoryRevision, Report
from memories.models.fields import exact_words
from memories.retrieval import term_statistics

MAX_CANDIDATES = 10_000  # maximum number of rows of a place whose words are compared in one search
ERASED_TEXT = "[erased]"  # replaces a quotation in a text that stays
MEMORIES, BATCH_NOTES, BATCH_CHOICES, REASONS = "memories", "batch notes", "batch choices", "reasons in the history"


def places() -> dict[str, TextPlace]:
    own = [
        TextPlace(
            MEMORIES,
            MemoryRecord,
            ("content", "summary"),
            MemoryRecord.objects.visible_to,
            "created_by",
            search_column="search",
        ),
        TextPlace(
            "earlier texts",
            MemoryRevision,
            ("content",),
            MemoryRevision.objects.visible_to,
            "record__created_by",
            erased_value=ERASED_TEXT,  # the row stays, because the history and its undo need it
        ),
        TextPlace(
            REASONS, MemoryRevision, ("reason",), MemoryRevision.objects.visible_to, "changed_by", erased_value=""
        ),
        TextPlace("feedback", Feedback, ("note",), _readable_feedback, "by", erased_value=""),
        TextPlace("reports", Report, ("note",), _readable_reports, "by", erased_value=""),
        TextPlace(BATCH_NOTES, Batch, ("note",), _readable_batches, "created_by", erased_value=""),
        TextPlace(BATCH_CHOICES, Batch, ("choice",), _readable_batches, "created_by", erased_value=""),
    ]
    return {place.name: place for place in [*own, *extensions.text_places()]}


def _readable_feedback(caller: Caller) -> QuerySet[Feedback]:
    return Feedback.objects.filter(record__in=MemoryRecord.objects.visible_to(caller))


def _readable_reports(caller: Caller) -> QuerySet[Report]:
    own = Report.objects.filter(by=caller.email)
    return Report.objects.all() if caller.is_admin else own | Report.objects.filter(record__created_by=caller.email)


def _readable_batches(caller: Caller) -> QuerySet[Batch]:
    return Batch.objects.all() if caller.is_admin else Batch.objects.filter(created_by=caller.email)


def containing(place: TextPlace, texts: Sequence[str], rows: QuerySet[Any] | None = None) -> QuerySet[Any]:
    """Return the rows of a place, or those of `rows`, with the words of one of the texts, in their order.

    Case, punctuation and white space don't matter. A place with a `search_column` finds no text of stop words alone. If
    the words are frequent, only MAX_CANDIDATES rows with all of them are read.
    """
    rows = place.model._default_manager.all() if rows is None else rows
    candidates = _with_all_words(place, texts, rows).values("pk")[:MAX_CANDIDATES]
    phrases = [SearchQuery(text, config="simple", search_type="phrase") for text in texts]
    vector = exact_words(*place.columns)
    found: QuerySet[Any] = place.model._default_manager.filter(pk__in=candidates)
    found = found.alias(words=vector).filter(words=reduce(or_, phrases))
    return found


def _with_all_words(place: TextPlace, texts: Sequence[str], rows: QuerySet[Any]) -> QuerySet[Any]:
    """Filter to rows with all words of one of the texts, in any order. The index finds them."""
    if not place.search_column:
        queries = [SearchQuery(text, config="simple") for text in texts]
        rows = rows.alias(words=exact_words(*place.columns)).filter(words=reduce(or_, queries))
        return rows
    lexemes = {query for text in texts for query in term_statistics.every_lexeme(text)} - {""}
    matches = [Q(_Matches(F(place.search_column), Value(query))) for query in sorted(lexemes)]
    return rows.filter(reduce(or_, matches, Q(pk__in=[])))


class _Matches(Func):
    """Match of a text-search vector with a tsquery, as an expression."""

    template = "(%(expressions)s::tsquery)"
    arg_joiner = " @@ "
    output_field = BooleanField()


def version_of(place: TextPlace, row: Model) -> str:
    """Return a keyed hash of the row's text. Without the key, nobody can check a guess of an erased text."""
    texts = "\n".join(str(getattr(row, column)) for column in place.columns)
    return salted_hmac("text place", texts, algorithm="sha256").hexdigest()[:16]


def remove(place: TextPlace, row: Model) -> None:
    """Delete a row, or clear its text. Memories are erased by erasure.py instead."""
    rows = place.model._default_manager.filter(pk=row.pk)
    if place.erased_value is None:
        rows.delete()
    else:
        rows.update(**dict.fromkeys(place.columns, place.erased_value))


def cut(place: TextPlace, row: Model, texts: Sequence[str]) -> bool:
    """Replace quotations of the texts in a row by ERASED_TEXT. Return whether there were any."""
    before = {column: str(getattr(row, column)) for column in place.columns}
    after = {column: without(value, texts) for column, value in before.items()}
    if before == after:
        return False
    place.model._default_manager.filter(pk=row.pk).update(**after)
    return True


def without(value: str, texts: Sequence[str]) -> str:
    for text in texts:  # longest first
        value = value.replace(text, ERASED_TEXT)
    return value
