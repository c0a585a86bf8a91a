"""Findings: conclusions that agents store, and page summaries. Both are searched by meaning."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, F, FloatField, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext
from pgvector.django import CosineDistance

from analysis import sessions, sources
from analysis.models import Finding, FindingPassage, Session
from analysis.operations import MAX_FINDING, FindingCategory, FindingText, StoreFindings, TopK
from analysis.querying.page_summaries import Summary
from foundation import embedding
from foundation.operations.errors import NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.models.fields import text_search_config
from memories.models.index_job import Trigger
from memories.retrieval import indexing, term_statistics
from memories.writing import quotations

FINDINGS = "findings"  # name of their TextPlace
SUMMARY = "page_summary"
EMBEDDED_AT_ONCE = 10  # maximum number of page summaries that an ingest embeds itself, if they are short
EMBEDDED_CHARACTERS = 8_000  # maximum length of these summaries together, unless the first one is longer
TOP_K = 50
THRESHOLD = 0.5
VECTOR = "to_tsvector(%s::regconfig, finding || ' ' || replace(category, '_', ' '))"


@dataclass(frozen=True)
class FindingHit:
    finding: Finding
    similarity: float


@dataclass(frozen=True)
class FindingSearchResult:
    hits: list[FindingHit]
    ranking: str = "semantic"
    degraded: bool = False
    note: str = ""


def store(caller: Caller, operation: StoreFindings) -> tuple[list[Finding], str]:
    """Store all findings or none. Return them with a note, or "".

    The note says that their vectors can't be computed yet, or that they begin a new analysis, although the caller has
    one with almost the same name.
    """
    is_new = not Session.objects.owned_by(caller).filter(analysis_id=operation.analysis_id).exists()
    similar = sessions.nearest(caller, operation.analysis_id) if is_new else ""
    session = sessions.begin(caller, operation.analysis_id)
    expires_at = None if operation.persistent else timezone.now() + sessions.FINDING_TTL
    rows = [
        Finding(session=session, persistent=operation.persistent, expires_at=expires_at, **item)
        for item in operation.findings
    ]
    with transaction.atomic():
        Finding.objects.bulk_create(rows)
        quotations.save_named_quotations(caller, operation.memory_ids, FINDINGS, [row.pk for row in rows])
    notes = [f"this begins a new analysis; you also have {similar}" if similar else "", index(rows)]
    return rows, "; ".join(filter(None, notes))


def save_page_summary(session: Session, model: str, page_key: str, summary: Summary) -> Finding:
    """Store a page's summary without vectors, or replace its earlier summary. Like the records, it expires."""
    text = summary.text[:MAX_FINDING]
    fields = {
        "model": model,
        "finding": text,
        "category": SUMMARY,
        "metadata": summary.metadata,
        "created_at": timezone.now(),
        "expires_at": timezone.now() + sessions.record_ttl(),
        "embedding_text_hash": None,
    }
    row, _ = Finding.objects.update_or_create(session=session, page_key=page_key, defaults=fields)
    return row


def index_some(rows: Sequence[Finding], earlier: int = 0) -> None:
    """Compute the vectors of the first rows, and queue jobs for the others.

    `earlier` is the number of summaries that earlier calls of the same download have stored.

    Embedding the summaries of all pages would take longer than storing the pages.
    """
    most = max(EMBEDDED_AT_ONCE - earlier, 0)
    lengths = accumulate(len(row.finding) for row in rows[:most])
    count = sum(number == 0 or length <= EMBEDDED_CHARACTERS for number, length in enumerate(lengths))
    if count:
        index(rows[:count])
    if len(rows) > count:
        indexing.enqueue("finding", [row.pk for row in rows[count:]], Trigger.WRITE)


def index(rows: Sequence[Finding]) -> str:
    """Compute the rows' vectors. If the embedder is unavailable, queue jobs for later. Return a note on that, or ""."""
    try:
        indexing.index("finding", {row.pk: row.finding for row in rows})
    except embedding.EmbedderUnavailable as error:
        indexing.enqueue("finding", [row.pk for row in rows], Trigger.WRITE)
        return f"stored; {error}; searches by meaning don't find the findings until their vectors are computed"
    return ""


SOURCE = indexing.passage_source("finding", Finding.objects.all, F("finding"), FindingPassage, "finding_id")


def readable(caller: Caller, withheld: Collection[str]) -> QuerySet[Finding]:
    """Return the findings of the caller's analyses that have not expired.

    Summaries of pages of `withheld` models (sources.withheld_models) are left out.
    """
    unexpired = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    is_withheld = ~Q(page_key="") & Q(model__in=withheld)
    return Finding.objects.filter(unexpired, session__in=Session.objects.owned_by(caller)).exclude(is_withheld)


def search(
    caller: Caller,
    session: Session,
    query: str,
    *,
    category: str = "",
    model: str = "",
    top_k: int = TOP_K,
    threshold: float = THRESHOLD,
) -> FindingSearchResult:
    """Return at most `top_k` findings, those closest in meaning to the query first.

    A finding matches if the cosine similarity of a passage is at least `threshold`, or if its text or category contains
    a word of the query. A finding whose vectors are not computed yet matches by words only, and comes last. If the
    embedder is unavailable, all findings are matched by words, and the result is marked as degraded.
    """
    query = validate(FindingText, query, "query")
    top_k = validate(TopK, top_k, "top_k")
    category = validate(FindingCategory, category, "category")
    model = validate(FindingCategory, model, "model")
    rows = readable(caller, sources.withheld_models(caller)).filter(session=session)
    if category:
        rows = rows.filter(category=category)
    if model:
        rows = rows.filter(Q(model=model) | Q(model=""))
    try:
        vector, used = embedding.embed_query(query)
    except embedding.EmbedderUnavailable as error:
        return _by_words(rows, query, top_k, str(error))
    distances = FindingPassage.objects.filter(finding=OuterRef("pk"), finding__embedding_model=used).values(
        distance=CosineDistance("vector", vector) + 0.0
    )
    nearest = Subquery(distances.order_by("distance")[:1])
    cosine = ExpressionWrapper(embedding.question_slope() * (1.0 - nearest), output_field=FloatField())
    similarity = Coalesce(cosine, 0.0, output_field=FloatField())
    matches = rows.annotate(cosine=cosine, similarity=similarity, has_word=_contains_any(_words(query)))
    matches = matches.filter(Q(cosine__gte=threshold) | Q(has_word=True))
    return FindingSearchResult(
        [FindingHit(row, row.similarity) for row in matches.order_by("-similarity", "id")[:top_k]]
    )


def _words(query: str) -> str:
    """Return a tsquery that matches any word of the query."""
    return term_statistics.any_of(term_statistics.query_terms(query))


def _contains_any(words: str) -> RawSQL:
    return RawSQL(f"{VECTOR} @@ %s::tsquery", [text_search_config(), words], output_field=BooleanField())


def _by_words(rows: QuerySet[Finding], query: str, top_k: int, reason: str) -> FindingSearchResult:
    words = _words(query)
    rank = RawSQL(f"ts_rank_cd({VECTOR}, %s::tsquery, 1)", [text_search_config(), words], output_field=FloatField())
    matches = rows.annotate(has_word=_contains_any(words), similarity=rank).filter(has_word=True)
    matches = matches.order_by("-similarity", "id")
    note = f"matched by exact words instead of meaning: {reason}"
    return FindingSearchResult([FindingHit(row, row.similarity) for row in matches[:top_k]], "lexical", True, note)


def get_finding(caller: Caller, finding_id: UUID | str) -> Finding:
    pk = validate(Id, finding_id, "finding_id")
    row = readable(caller, sources.withheld_models(caller)).filter(pk=pk).select_related("session").first()
    if row is None:
        raise NotFound(
            gettext("no such finding of yours; findings expire after an hour unless persistent"), field="finding_id"
        )
    return row
