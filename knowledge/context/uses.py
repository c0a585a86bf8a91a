"""Detects that an attached memory was used: a later call on the connection has words of it that the first did not have.

The words of a call are the tables, columns and literals of its statements, and the names of the entities it asks about.
A literal of several words counts if the memory has all of them. The words of a memory are those of its text and its
columns. Ordinary words, years and round numbers are left out on both sides.

Impressions are rows without policies, so they keep keyed hashes of words, and no words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from knowledge.context.column_names import COMMON, ORDINARY, TOKEN
from knowledge.entities.call_subject import MIN_WORD, STOP_WORDS, CallSubject, singular
from memories.models import MemoryRecord
from memories.rendering import entity_name
from memories.use.attachment_use import mark_used
from memories.use.attachments import LastImpression

MAX_TERMS = 60  # maximum number of hashes that are stored with an impression
# Numbers that so many texts have that they point to none: single digits, years, powers of ten.
VAGUE_NUMBER = re.compile(r"\d|(19|20)\d\d|10+")


def terms_beyond(records: Iterable[MemoryRecord], subject: CallSubject) -> dict[UUID, list[int]]:
    """Return the hashes of each memory's words that a call does not have. Later calls that have one show a use."""
    known = {word for term in _terms_of(subject) for word in term} | _all_words(subject)
    beyond = {record.pk: [word for word in _words_of_memory(record) if word not in known] for record in records}
    return {pk: [_hash(word) for word in words[:MAX_TERMS]] for pk, words in beyond.items()}


def note_uses(recent: Mapping[UUID, LastImpression], subject: CallSubject) -> None:
    """Mark the recent impressions of a connection that this later call shows to be used, if there are any."""
    waiting = [shown for shown in recent.values() if shown.terms and not shown.is_used]
    if not waiting:
        return
    terms = [{_hash(word) for word in term} for term in _terms_of(subject)]
    if used := [shown.impression for shown in waiting if any(term <= set(shown.terms or ()) for term in terms)]:
        mark_used(used, timezone.now())


def _terms_of(subject: CallSubject) -> list[Collection[str]]:
    """Return the words that a call names, each term with those that must occur together."""
    names = [entity_name(urn).rpartition(".")[2] for urn in subject.requested]
    names += [name for statement in subject.statements for name in _names_in(statement.tables, statement.columns)]
    literals = [text for statement in subject.statements for text in statement.literals]
    terms: list[Collection[str]] = [_distinctive_words([name]) for name in names]
    return [term for term in [*terms, *(_distinctive_words(TOKEN.findall(text)) for text in literals)] if term]


def _names_in(tables: Sequence[str], columns: Sequence[str]) -> list[str]:
    return [*(table.rpartition(".")[2] for table in tables), *columns]


def _all_words(subject: CallSubject) -> set[str]:
    return set(_distinctive_words(TOKEN.findall(subject.question)))


def _words_of_memory(record: MemoryRecord) -> list[str]:
    columns = " ".join(str(column.get("column", "")) for column in record.related_columns)
    return _distinctive_words(TOKEN.findall(f"{record.content} {columns}"))


def _distinctive_words(words: Iterable[str]) -> list[str]:
    """Return the words in a form that can be compared, without those that point to nothing."""
    lowered = (word.lower() for word in words)
    return list(dict.fromkeys(singular(word) for word in lowered if _is_distinctive(word)))


def _is_distinctive(word: str) -> bool:
    if word.isdigit():
        return not VAGUE_NUMBER.fullmatch(word)
    return len(word) >= MIN_WORD and word not in STOP_WORDS and word not in ORDINARY and word not in COMMON


def _hash(word: str) -> int:
    """Return a signed 32-bit hash that only this installation can compute."""
    digest = hashlib.blake2b(word.encode(), digest_size=4, key=str(settings.SECRET_KEY).encode()[:64]).digest()
    return int.from_bytes(digest, signed=True)
