"""The semantic cache: a user's stored answers, found by questions with a similar meaning until they expire.

A stored question matches a new one in two cases: if it is the same text, ignoring case, or if it has a similar vector
and contains the same numbers and identifiers. Numbers and identifiers are compared, because "orders in 2024" and
"orders in 2025" are similar but have different answers. Vectors are similar if their cosine is at least
CACHE_SIMILARITY_THRESHOLD, or the threshold that the call gives instead.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import DataError, transaction
from django.db.models import F, Q
from django.utils import timezone
from pgvector.django import CosineDistance

from memories import embedding
from memories.contract.errors import Invalid
from memories.conversation.acting_user import acting_as
from memories.conversation.models import CachedAnswer, CacheUse
from memories.conversation.operations import CheckCache, InvalidateCache, StoreCache
from memories.database.connections import async_commit
from memories.identity.caller import Caller

NEAREST = 10  # maximum number of entries, nearest first, whose numbers and identifiers are compared
EXACT = re.compile(r"\w*\d\w*|\w+(?:[._]\w+)+")  # words with a digit, and names with dots or underscores
URN = re.compile(r"urn:li:[A-Za-z]\w*:(?:\([^()\s]*(?:\([^()\s]*\))?[^()\s]*\)|[^\s,;)\"']+)")
EXPIRED_DAYS = 30  # days until the hits and misses of a day are deleted


@dataclass(frozen=True)
class CacheHit:
    entry: CachedAnswer
    score: float  # the cosine, or 1.0 if the stored question is the same text


@dataclass(frozen=True)
class CacheLookup:
    hit: CacheHit | None
    note: str = ""


def check_cache(operation: CheckCache, *, caller: Caller) -> CacheLookup:
    """Return the user's unexpired entry that matches the question best, if there is one.

    While the embedder is unavailable, only an entry with the same text, ignoring case, is found.
    """
    user = acting_as(caller, operation.user_id)
    threshold = (
        settings.CACHE_SIMILARITY_THRESHOLD
        if operation.similarity_threshold is None
        else operation.similarity_threshold
    )
    vector, model, note = _vector(operation.query)
    entries = CachedAnswer.objects.filter(created_by=user.email, expires_at__gt=timezone.now())
    same_words = entries.filter(query__iexact=operation.query).first()
    hit = CacheHit(same_words, 1.0) if same_words else None
    if hit is None and vector is not None:
        similar = entries.filter(embedding_model=model).annotate(distance=CosineDistance("vector", vector))
        for entry in similar.order_by("distance")[:NEAREST]:
            if 1 - entry.distance >= threshold and exact_parts(entry.query) == exact_parts(operation.query):
                hit = CacheHit(entry, 1 - entry.distance)
                break
    _count(user, hit)
    return CacheLookup(hit, note)


def store_cache(operation: StoreCache, *, caller: Caller) -> tuple[CachedAnswer, str]:
    """Store an answer and delete an earlier one to the same question, ignoring case.

    Returns the entry, and a note if its question can't be embedded now.
    """
    user = acting_as(caller, operation.user_id)
    vector, model, note = _vector(operation.query)
    urns = dict.fromkeys([*operation.entity_urns, *URN.findall(f"{operation.query} {operation.response}")])
    lifetime = timedelta(seconds=operation.ttl_seconds or settings.CACHE_TTL_SECONDS)
    with transaction.atomic():
        CachedAnswer.objects.filter(created_by=user.email, query__iexact=operation.query).delete()
        entry = CachedAnswer.objects.create(
            created_by=user.email,
            query=operation.query,
            response=operation.response,
            entity_urns=[urn for urn in urns if len(urn) <= 500][:50],
            vector=vector,
            embedding_model=model,
            expires_at=timezone.now() + lifetime,
        )
    return entry, note


def invalidate_cache(operation: InvalidateCache, *, caller: Caller) -> int:
    """Delete the user's entries that match all given conditions, or every entry with `invalidate_all`; return how many.

    Raises Invalid if there is no condition, or if the pattern is not a regular expression.
    """
    user = acting_as(caller, operation.user_id)
    rows = CachedAnswer.objects.filter(created_by=user.email)
    if not operation.invalidate_all:
        if not operation.pattern and not operation.entity_urns:
            raise Invalid("is missing", field="pattern", allowed="a pattern, entity_urns, or invalidate_all true")
        rule = Q(query__iregex=operation.pattern) if operation.pattern else Q()
        rows = rows.filter(rule & (Q(entity_urns__overlap=operation.entity_urns) if operation.entity_urns else Q()))
    try:
        with transaction.atomic():
            return rows.delete()[0]
    except DataError:
        raise Invalid(
            f"{str(operation.pattern)[:60]!r} is not a regular expression",
            field="pattern",
            allowed="words, or a|b, or a.*b",
        ) from None


def delete_answers_about(urns: Sequence[str], names: Sequence[str] = ()) -> int:
    """Delete the cached answers of all users that list one of these URNs or mention one of these names."""
    rule = Q(entity_urns__overlap=list(urns))
    for name in names:
        rule |= Q(query__icontains=name) | Q(response__icontains=name)
    return CachedAnswer.objects.filter(rule).delete()[0]


def delete_answers_quoting(texts: Sequence[str]) -> None:
    for text in texts:
        CachedAnswer.objects.filter(Q(response__contains=text) | Q(query__contains=text)).delete()


def delete_expired() -> int:
    now = timezone.now()
    CacheUse.objects.filter(day__lt=now.date() - timedelta(days=EXPIRED_DAYS)).delete()
    return CachedAnswer.objects.filter(expires_at__lte=now).delete()[0]


def exact_parts(query: str) -> set[str]:
    return {match.group().lower() for match in EXACT.finditer(query)}


def _vector(text: str) -> tuple[list[float] | None, str, str]:
    try:
        vector, model = embedding.embed_one(text)
    except embedding.EmbedderUnavailable as error:
        return None, "", f"{error}; only questions with the same words are found in the cache"
    return vector, model, ""


def _count(user: Caller, hit: CacheHit | None) -> None:
    now = timezone.now()
    with async_commit():
        if hit:
            CachedAnswer.objects.filter(pk=hit.entry.pk).update(hits=F("hits") + 1, last_hit_at=now)
        CacheUse.objects.get_or_create(created_by=user.email, day=now.date())
        column = "hits" if hit else "misses"
        CacheUse.objects.filter(created_by=user.email, day=now.date()).update(**{column: F(column) + 1})
