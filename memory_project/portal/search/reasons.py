"""Why recall found a memory, how far it can be trusted, and what was left out, in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext, ngettext

from foundation.operations.display import show_invisible
from memories.models import Confidence, MemoryRecord, Status
from memories.models.validity import EXPIRED, NOT_YET
from memories.retrieval.matched_words import Piece
from memories.retrieval.ranking import ENTITY_BONUS
from memories.retrieval.recall import Recall, RecallHit
from memories.writing.verification import LastVerification
from memory_project.accounts.names import name_of
from memory_project.web import locale

ALL_WORDS = 0.995  # coverage from which a memory has all words of the question, allowing for rounding
VERY_CLOSE, CLOSE, RELATED = 0.6, 0.4, 0.25  # least cosines of texts that mean nearly the same, or something similar
MAX_WORDS_QUOTED = 6


def why_found(hit: RecallHit, result: Recall, pieces: Sequence[Piece]) -> list[str]:
    """Return the parts of the hit's score in words, strongest first."""
    found = [(hit.bonus, _entity(hit)), (hit.coverage, _words(hit, pieces)), (hit.cosine or 0.0, _meaning(hit))]
    sentences = [sentence for _, sentence in sorted(found, key=lambda part: -part[0]) if sentence]
    if hit.record.conversation_id and result.ranking.startswith("context"):
        sentences.append(gettext("Part of a conversation about this"))
    return sentences or [gettext("Only loosely related")]


def _entity(hit: RecallHit) -> str:
    if not hit.bonus:
        return ""
    if hit.bonus >= ENTITY_BONUS:
        return gettext("About the entity that you named")
    return gettext("About an entity that is related to the one you named")


def _words(hit: RecallHit, pieces: Sequence[Piece]) -> str:
    words = list(dict.fromkeys(show_invisible(piece.text).casefold() for piece in pieces if piece.is_match))
    if not hit.coverage:
        return ""
    if not words:  # for example in the summary, or in another passage of a long text
        return gettext("Has words of your question outside of this passage")
    quoted = ", ".join(words[:MAX_WORDS_QUOTED])
    if hit.coverage >= ALL_WORDS:
        return gettext("Has all words of your question: %(words)s") % {"words": quoted}
    return ngettext(
        "Has a word of your question: %(words)s", "Has words of your question: %(words)s", len(words)
    ) % {"words": quoted}  # fmt: skip


def _meaning(hit: RecallHit) -> str:
    if hit.cosine is None or hit.cosine < RELATED:
        return ""
    if hit.cosine >= VERY_CLOSE:
        return gettext("Means nearly the same as your question")
    if hit.cosine >= CLOSE:
        return gettext("Close to your question in meaning")
    return gettext("Related to your question in meaning")


def trust(record: MemoryRecord, verification: LastVerification | None, hint: str) -> list[str]:
    """Return what speaks for and against the memory. The ranking does not depend on it."""
    found = []
    if verification:
        person = name_of(verification.by)
        sentence = (
            gettext("Verified by %(person)s on %(date)s")
            if verification.is_current
            else gettext("Changed since %(person)s verified it on %(date)s")
        )
        found.append(sentence % {"person": person, "date": locale.day(verification.at)})
    if record.confidence == Confidence.HIGH:
        found.append(gettext("Its author is sure of it"))
    if record.confidence == Confidence.LOW:
        found.append(gettext("Its author is not sure of it"))
    if hint:
        found.append(gettext("Check it: %(reason)s") % {"reason": show_invisible(hint)})
    return found


@dataclass(frozen=True)
class LeftOut:
    status: str
    sentence: str


def left_out(result: Recall) -> list[LeftOut]:
    """Return which matching memories neither the page nor an agent gets, by their status."""
    stale, superseded = (result.left_out.get(status, 0) for status in (Status.STALE, Status.SUPERSEDED))
    found = []
    if stale:
        text = ngettext("%(n)s stale memory matches, too.", "%(n)s stale memories match, too.", stale)
        found.append(LeftOut(Status.STALE, text % {"n": locale.number(stale)}))
    if superseded:
        text = ngettext(
            "%(n)s memory that was corrected since matches, too.",
            "%(n)s memories that were corrected since match, too.",
            superseded,
        )
        found.append(LeftOut(Status.SUPERSEDED, text % {"n": locale.number(superseded)}))
    expired, to_come = (result.left_out.get(state, 0) for state in (EXPIRED, NOT_YET))
    if expired:
        text = ngettext(
            "%(n)s memory that is no longer valid matches, too.",
            "%(n)s memories that are no longer valid match, too.",
            expired,
        )
        found.append(LeftOut(EXPIRED, text % {"n": locale.number(expired)}))
    if to_come:
        text = ngettext(
            "%(n)s memory that is not valid yet matches, too.",
            "%(n)s memories that are not valid yet match, too.",
            to_come,
        )
        found.append(LeftOut(NOT_YET, text % {"n": locale.number(to_come)}))
    return found
