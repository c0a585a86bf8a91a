"""Findings: what an agent stored, and the page summaries; kept with passages, found by meaning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, F, FloatField, OuterRef, Q, QuerySet, Subquery
from django.db.models.expressions import RawSQL
from django.utils import timezone
from pgvector.django import CosineDistance

from analysis import sessions
from analysis.models import Finding, FindingPassage, Session
from analysis.operations import MAX_FINDING, FindingCategory, FindingText, StoreFindings, TopK
from analysis.querying.page_summaries import Summary
from memories import embedding
from memories.contract.errors import NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models.fields import text_search_config
from memories.models.index_job import Trigger
from memories.retrieval import indexing, term_statistics

SUMMARY = "page_summary"
TOP_K = 50
THRESHOLD = 0.5
VECTOR = "to_tsvector(%s::regconfig, finding || ' ' || replace(category, '_', ' '))"


@dataclass(frozen=True)
class Hit:
    finding: Finding
    similarity: float


@dataclass(frozen=True)
class SearchResult:
    hits: list[Hit]
    ranking: str = "semantic"
    degraded: bool = False
    note: str = ""


def store(operation: StoreFindings, *, caller: Caller) -> tuple[list[Finding], str]:
    """Keeps all of the findings or none; returns them and a note about what is degraded."""
    session = sessions.begin(caller, operation.analysis_id)
    expires_at = None if operation.persistent else timezone.now() + sessions.FINDING_TTL
    rows = [
        Finding(session=session, persistent=operation.persistent, expires_at=expires_at, **item)
        for item in operation.findings
    ]
    with transaction.atomic():
        Finding.objects.bulk_create(rows)
    return rows, index(rows)


def save_page_summary(session: Session, model: str, page_key: str, summary: Summary) -> None:
    """The summary of a page, in the place of an earlier one of the same page; it lives as long as its records."""
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
    index([row])


def index(rows: Sequence[Finding]) -> str:
    """Gives the rows their vectors; without embedder, jobs are left for later. Returns a note."""
    try:
        indexing.index("finding", {row.pk: row.finding for row in rows})
    except embedding.EmbedderUnavailable as error:
        indexing.enqueue("finding", [row.pk for row in rows], Trigger.WRITE)
        return f"stored; {error}; found by its words until its vector is computed"
    return ""


SOURCE = indexing.passage_source("finding", Finding.objects.all, F("finding"), FindingPassage, "finding_id")


def living(session: Session) -> QuerySet[Finding]:
    return Finding.objects.filter(session=session).filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))


def search(
    session: Session,
    query: str,
    *,
    category: str = "",
    model: str = "",
    top_k: int = TOP_K,
    threshold: float = THRESHOLD,
) -> SearchResult:
    """Findings like the query, best first: at most `top_k` of those with a passage of cosine ≥ `threshold`, or with a
    word of the query in their text or category. Without embedder, by words alone, and labelled so."""
    query, top_k = validate(FindingText, query, "query"), validate(TopK, top_k, "top_k")
    category, model = validate(FindingCategory, category, "category"), validate(FindingCategory, model, "model")
    rows = living(session)
    if category:
        rows = rows.filter(category=category)
    if model:
        rows = rows.filter(Q(model=model) | Q(model=""))
    try:
        vector, _ = embedding.embed_one(query)
    except embedding.EmbedderUnavailable as error:
        return _by_words(rows, query, top_k, str(error))
    distances = FindingPassage.objects.filter(finding=OuterRef("pk")).values(d=CosineDistance("vector", vector) + 0.0)
    cosine = ExpressionWrapper(1.0 - Subquery(distances.order_by("d")[:1]), output_field=FloatField())
    near = rows.annotate(similarity=cosine, found=_holds(_words(query)))
    near = near.filter(similarity__isnull=False).filter(Q(similarity__gte=threshold) | Q(found=True))
    return SearchResult([Hit(row, row.similarity) for row in near.order_by("-similarity", "id")[:top_k]])


def _words(query: str) -> str:
    """Any word of the query, as a tsquery."""
    return term_statistics.any_of(term_statistics.query_terms(query))


def _holds(words: str) -> RawSQL:
    return RawSQL(f"{VECTOR} @@ %s::tsquery", [text_search_config(), words], output_field=BooleanField())


def _by_words(rows: QuerySet[Finding], query: str, top_k: int, why: str) -> SearchResult:
    words = _words(query)
    rank = RawSQL(f"ts_rank_cd({VECTOR}, %s::tsquery, 1)", [text_search_config(), words], output_field=FloatField())
    near = rows.annotate(found=_holds(words), similarity=rank).filter(found=True).order_by("-similarity", "id")
    note = f"by exact words, not by meaning: {why}"
    return SearchResult([Hit(row, row.similarity) for row in near[:top_k]], "lexical", True, note)


def get_finding(caller: Caller, finding_id: UUID | str) -> Finding:
    """A living finding of one of the caller's sessions."""
    pk = validate(Id, finding_id, "finding_id")
    row = Finding.objects.filter(pk=pk, session__owner=caller.email).select_related("session").first()
    if row is None or (row.expires_at and row.expires_at <= timezone.now()):
        raise NotFound("no such finding of yours; findings expire after an hour unless persistent", field="finding_id")
    return row
