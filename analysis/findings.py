"""Findings: what an agent stored, and the page summaries; kept with a vector, found by meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import BooleanField, FloatField, Q, QuerySet, Value
from django.db.models.expressions import CombinedExpression, RawSQL
from django.utils import timezone
from pgvector.django import CosineDistance

from analysis import sessions
from analysis.asking.summaries import Summary
from analysis.models import Finding, Session
from memories import embedding, validation
from memories.access import Caller
from memories.contract.errors import Invalid, NotFound, check_count
from memories.models.fields import text_search_config
from memories.models.index_job import Trigger
from memories.retrieval import indexing, lexicon

AT_ONCE = 25
FINDING_MOST = 4_000
CATEGORY_MOST = 120
METADATA_BYTES = 16_000
SUMMARY = "page_summary"
TOP_K, TOP_K_MAX = 50, 200
THRESHOLD = 0.5
VECTOR = "to_tsvector(%s::regconfig, finding || ' ' || replace(category, '_', ' '))"


@dataclass(frozen=True)
class Hit:
    finding: Finding
    similarity: float


@dataclass(frozen=True)
class Found:
    hits: list[Hit]
    ranking: str = "semantic"
    degraded: bool = False
    note: str = ""


def store(
    *, caller: Caller, analysis_id: str, findings: Sequence[Mapping[str, Any]], persistent: bool = False
) -> tuple[list[Finding], str]:
    """Keeps all of the findings or none; answers them and a note about what is degraded."""
    if not findings:
        raise Invalid("is empty", field="findings", allowed=f"1 to {AT_ONCE} of {{finding, category, metadata}}")
    check_count("findings", findings, AT_ONCE)
    made = [_clean(one, f"findings[{place}]") for place, one in enumerate(findings)]
    session = sessions.begin(caller, analysis_id)
    expires_at = None if persistent else timezone.now() + sessions.FINDING_TTL
    rows = [Finding(session=session, persistent=persistent, expires_at=expires_at, **one) for one in made]
    with transaction.atomic():
        Finding.objects.bulk_create(rows)
    return rows, index(rows)


def _clean(given: Any, place: str) -> dict[str, Any]:
    if not isinstance(given, Mapping) or (unknown := set(given) - {"finding", "category", "metadata"}):
        fault = f"{sorted(unknown)[0]!r} is unknown" if isinstance(given, Mapping) else "is not an object"
        raise Invalid(fault, field=place, allowed="finding, category, metadata")
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise Invalid("is not an object", field=f"{place}.metadata")
    try:
        metadata = validation.clean_metadata(dict(metadata))
    except Invalid as error:
        raise Invalid(error.fault, field=f"{place}.metadata", allowed=error.allowed) from None
    return {
        "finding": validation.clean_text(f"{place}.finding", given.get("finding"), 1, FINDING_MOST),
        "category": validation.clean_text(f"{place}.category", given.get("category") or "", 0, CATEGORY_MOST),
        "metadata": metadata,
    }


def keep_summary(session: Session, model: str, page_key: str, summary: Summary) -> None:
    """The summary of a page, in the place of an earlier one of the same page; it lives as long as its records."""
    text = summary.text[:FINDING_MOST]
    fields = {
        "model": model,
        "finding": text,
        "category": SUMMARY,
        "metadata": summary.metadata,
        "created_at": timezone.now(),
        "expires_at": timezone.now() + sessions.record_ttl(),
        "embedding": None,
        "embedding_text_hash": None,
    }
    row, _ = Finding.objects.update_or_create(session=session, page_key=page_key, defaults=fields)
    index([row])


def index(rows: Sequence[Finding]) -> str:
    """Gives the rows their vectors; without embedder, jobs are left for later. Answers a note."""
    try:
        vectors, model = embedding.embed([row.finding for row in rows])
    except embedding.EmbedderUnavailable as error:
        indexing.enqueue("finding", [row.pk for row in rows], Trigger.WRITE)
        return f"stored; {error}; found by its words until its vector is made"
    for row, vector in zip(rows, vectors, strict=True):
        indexing.store_vector("finding", row.pk, row.finding, vector.tolist(), model)
    return ""


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
) -> Found:
    """Findings like the query, best first: at most `top_k` of those with cosine ≥ `threshold`, or with a word of the
    query in their text or category. Without embedder, by words alone, and labelled so."""
    query = validation.clean_text("query", query, 1, FINDING_MOST)
    category = validation.clean_text("category", category, 0, CATEGORY_MOST)
    model = validation.clean_text("model", model, 0, CATEGORY_MOST)
    if not 1 <= top_k <= TOP_K_MAX:
        raise Invalid(f"is {top_k}", field="top_k", allowed=f"1 to {TOP_K_MAX}")
    rows = living(session).defer("embedding")
    if category:
        rows = rows.filter(category=category)
    if model:
        rows = rows.filter(Q(model=model) | Q(model=""))
    try:
        vector, _ = embedding.embed_one(query)
    except embedding.EmbedderUnavailable as error:
        return _by_words(rows, query, top_k, str(error))
    cosine = CombinedExpression(Value(1.0), "-", CosineDistance("embedding", vector), output_field=FloatField())
    near = rows.filter(embedding__isnull=False).annotate(similarity=cosine, found=_holds(_words(query)))
    near = near.filter(Q(similarity__gte=threshold) | Q(found=True))
    return Found([Hit(row, row.similarity) for row in near.order_by("-similarity", "id")[:top_k]])


def _words(query: str) -> str:
    """Any word of the query, as a tsquery."""
    return lexicon.any_of(lexicon.query_terms(query))


def _holds(words: str) -> RawSQL:
    return RawSQL(f"{VECTOR} @@ %s::tsquery", [text_search_config(), words], output_field=BooleanField())


def _by_words(rows: QuerySet[Finding], query: str, top_k: int, why: str) -> Found:
    words = _words(query)
    rank = RawSQL(f"ts_rank_cd({VECTOR}, %s::tsquery, 1)", [text_search_config(), words], output_field=FloatField())
    near = rows.annotate(found=_holds(words), similarity=rank).filter(found=True).order_by("-similarity", "id")
    note = f"by exact words, not by meaning: {why}"
    return Found([Hit(row, row.similarity) for row in near[:top_k]], "lexical", True, note)


def one(caller: Caller, finding_id: UUID | str) -> Finding:
    """A living finding of one of the caller's sessions."""
    pk = validation.clean_id(finding_id, "finding_id")
    row = Finding.objects.filter(pk=pk, session__owner=caller.email).select_related("session").first()
    if row is None or (row.expires_at and row.expires_at <= timezone.now()):
        raise NotFound("no such finding of yours; findings expire after an hour unless persistent", field="finding_id")
    return row
