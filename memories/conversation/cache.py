"""The semantic cache: a user's stored answers, found by questions that say the same until they expire.

A stored question matches a new one if it is the same text, ignoring case, or if it has a similar vector and says the
same (see `memories/texts/`): "before the audit" and "after the audit" are similar, but have different
answers. Vectors are similar if their cosine is at least SIMILARITY_THRESHOLD, or the threshold that the call
gives instead. Other similar questions are returned without their answers, for the agent to judge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import re2
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext
from pgvector.django import CosineDistance

from foundation import embedding
from foundation.database.connections import async_commit
from foundation.lazy_numpy import np
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.models import CachedAnswer, CacheUse
from memories.conversation.operations import CheckCache, InvalidateCache, StoreCache
from memories.texts.comparison import TextVerdict, compare
from memories.writing import quotations

# Minimum cosine of a hit. It can be low, because a hit must also say the same as the question. On the scale
# (1 + cosine) / 2 it equals .85.
SIMILARITY_THRESHOLD = 0.7

CACHED_ANSWERS = "cached answers"  # name of their TextPlace
NEAREST = 10  # maximum number of entries, nearest first, whose questions are compared
NEAR_COSINE = 0.45  # minimum cosine of a question that is returned as near (bench/statement_pairs.py)
MAX_NEAR = 3  # maximum number of near questions
URN = re.compile(r"urn:li:[A-Za-z]\w*:(?:\([^()\s]*+(?:\([^()\s]*+\))?[^()\s]*+\)|[^\s,;)\"']+)")
PATTERN_BYTES = 1 << 20  # maximum memory of a compiled pattern
EXPIRED_DAYS = 30  # days until the hits and misses of a day are deleted


@dataclass(frozen=True)
class CacheHit:
    entry: CachedAnswer
    score: float  # the cosine, or 1.0 if the stored question is the same text


@dataclass(frozen=True)
class NearQuestion:
    entry: CachedAnswer
    score: float  # the cosine
    differs: str  # quotes what differs, first from the stored question


@dataclass(frozen=True)
class CacheLookup:
    hit: CacheHit | None
    note: str = ""
    near: tuple[NearQuestion, ...] = ()


def check_cache(caller: Caller, operation: CheckCache) -> CacheLookup:
    """Return the user's unexpired entry that matches the question best, or the near questions if there is none.

    With `cache_id`, the entry with this id is returned, as an agent has judged that it answers the question. Raises
    NotFound if the user has no such unexpired entry. While the embedder is unavailable, only an entry with the same
    text, ignoring case, is found.
    """
    user = acting_as(caller, operation.user_id)
    entries = CachedAnswer.objects.filter(created_by=user.email, expires_at__gt=timezone.now())
    if operation.cache_id is not None:
        return _chosen(user, entries, operation.cache_id, operation.query)
    vector, model, note = _vector(operation.query)
    same_text = entries.filter(query__iexact=operation.query).first()
    hit = CacheHit(same_text, 1.0) if same_text else None
    near: tuple[NearQuestion, ...] = ()
    if hit is None and vector is not None:
        similar = entries.filter(embedding_model=model).annotate(distance=CosineDistance("vector", vector))
        hit, near = _compare(similar.order_by("distance")[:NEAREST], operation)
    _count(user, hit)
    return CacheLookup(hit, note, near)


def _chosen(user: Caller, entries: QuerySet[CachedAnswer], cache_id: UUID, query: str) -> CacheLookup:
    entry = entries.filter(pk=cache_id).first()
    if entry is None:
        raise NotFound(gettext("no such cached answer, or it has expired"), field="cache_id")
    vector, model, note = _vector(query)
    score = 0.0  # of an entry that can't be compared now
    if vector is not None and entry.vector is not None and entry.embedding_model == model:
        score = float(np.dot(np.asarray(entry.vector), np.asarray(vector)))
    hit = CacheHit(entry, score)
    _count(user, hit)
    return CacheLookup(hit, note)


def _compare(
    entries: Iterable[CachedAnswer], operation: CheckCache
) -> tuple[CacheHit | None, tuple[NearQuestion, ...]]:
    threshold = SIMILARITY_THRESHOLD if operation.similarity_threshold is None else operation.similarity_threshold
    near = []
    for entry in entries:
        score = 1 - entry.distance  # type: ignore[attr-defined]  # annotated
        if score < min(threshold, NEAR_COSINE):
            break
        comparison = compare(entry.query, operation.query)
        if comparison.verdict == TextVerdict.SAME and score >= threshold:
            return CacheHit(entry, score), ()
        if score >= NEAR_COSINE:
            near.append(NearQuestion(entry, score, str(comparison) or "only the wording"))
    return None, tuple(near[:MAX_NEAR])


def store_cache(caller: Caller, operation: StoreCache) -> tuple[CachedAnswer, str]:
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
        reader = caller if user.email == caller.email else user  # a service's user holds no persona
        quotations.save_named_quotations(reader, operation.memory_ids, CACHED_ANSWERS, [entry.pk])
    return entry, note


def invalidate_cache(caller: Caller, operation: InvalidateCache) -> int:
    """Delete the user's entries that match all given conditions, or every entry with `invalidate_all`; return how many.

    Raises Invalid if there is no condition, or if the pattern is not a regular expression in RE2's syntax.
    """
    user = acting_as(caller, operation.user_id)
    rows = CachedAnswer.objects.filter(created_by=user.email)
    if operation.invalidate_all and (operation.pattern or operation.entity_urns):
        raise Invalid(
            gettext("contradicts the other conditions"),
            field="invalidate_all",
            allowed=gettext("true alone, or a pattern and entity_urns without it"),
        )
    if not operation.invalidate_all:
        if not operation.pattern and not operation.entity_urns:
            raise Invalid(
                gettext("is missing"),
                field="pattern",
                allowed=gettext("a pattern, or entity_urns"),
            )
        if operation.entity_urns:
            rows = rows.filter(entity_urns__overlap=operation.entity_urns)
        if operation.pattern:
            rows = rows.filter(pk__in=_matching(rows, operation.pattern))
    with transaction.atomic():
        return rows.delete()[0]


def _matching(rows: QuerySet[CachedAnswer], pattern: str) -> list[UUID]:
    """Return the ids of the entries whose questions the pattern matches, ignoring case."""
    options = re2.Options()
    options.case_sensitive = options.log_errors = False
    options.max_mem = PATTERN_BYTES
    try:
        # RE2 takes linear time. Python's `re` can be made to hold the interpreter for minutes.
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if error.args else "invalid"
        raise Invalid(
            gettext("%(pattern)r is not a regular expression (%(reason)s)")
            % {"pattern": pattern[:60], "reason": reason[:80]},
            field="pattern",
            allowed=gettext("words, or a|b, or a.*b"),
        ) from None
    return [pk for pk, query in rows.values_list("pk", "query").iterator() if compiled.search(query)]


def delete_answers_about(urns: Sequence[str], names: Sequence[str] = ()) -> int:
    """Delete the cached answers of all users that list one of these URNs or mention one of these names."""
    rule = Q(entity_urns__overlap=list(urns))
    for name in names:
        rule |= Q(query__icontains=name) | Q(response__icontains=name)
    return CachedAnswer.objects.filter(rule).delete()[0]


def delete_expired() -> int:
    now = timezone.now()
    CacheUse.objects.filter(day__lt=now.date() - timedelta(days=EXPIRED_DAYS)).delete()
    return CachedAnswer.objects.filter(expires_at__lte=now).delete()[0]


def _vector(text: str) -> tuple[list[float] | None, str, str]:
    try:
        vector, model = embedding.embed_query(text)
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
