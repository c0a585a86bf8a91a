"""The second stage of recall: what stands around a turn of a conversation tells what it is about.

Seeds are the best candidates of the first stage; beside each come its neighbours in the same thread, within the
reader's scope: they may answer better than the seed. A piece of evidence (a word of the question in a turn, or one near
to it) counts for the turns around it too, falling with distance. A record without a thread keeps its own evidence.

With token bits:     Σ w_t·ctx(sim_t) + .4·cosA + .2·Σ share·ctx(hit) + .15 speaker + .3 date + .05 when − .02 asks
without them:        .6·cosA + .45·Σ share·ctx(hit) + .2 speaker + .4 date + .05 when − .02 asks
without vectors too: the latter without cosA.
cosA = (cos + ½ previous + ½ next) / 2. Weights are settings.RECALL_CONTEXT (chosen with bench/recall_quality).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from memories.database import prepared_statements
from memories.database.queryset_sql import Condition
from memories.embedding import Tokens, Vectors
from memories.lazy_numpy import np
from memories.retrieval import term_statistics
from memories.retrieval import token_similarity as token_bits
from memories.retrieval.question_features import asks
from memories.retrieval.ranking import Candidate, Question, Ranked, order, plain

SEEDS = 40
NEIGHBOURS = 2  # turns on either side that are fetched
BEFORE, AFTER = 5, 2  # turns whose evidence reaches this one
DECAY_BEFORE, DECAY_AFTER = 0.9, 0.7  # a turn of distance

# The seeds and their neighbours. The neighbours' ids as an array, and each seed's looked up by themselves (OFFSET 0): a
# join makes the planner scan the table.
AROUND = """
    SELECT memory_records.id, CASE WHEN conversation_id <> '' THEN created_by || ' ' || conversation_id ELSE '' END,
           thread_position, created_at, lower(author), content,
           {cosine}, ARRAY[{hits}]::boolean[],
           ARRAY(SELECT token_bits FROM memory_passages p WHERE p.record_id = memory_records.id ORDER BY start)
    FROM memory_records
    WHERE id = ANY(%(seeds)s) OR (id = ANY(ARRAY(
        SELECT near.id FROM unnest(%(threads)s::varchar[], %(positions)s::int[]) AS seed(thread, position)
        CROSS JOIN LATERAL (
            SELECT turn.id FROM memory_records turn
            WHERE turn.conversation_id = seed.thread AND turn.conversation_id <> ''
              AND turn.thread_position BETWEEN seed.position - %(reach)s AND seed.position + %(reach)s OFFSET 0
        ) near
    )) AND {scope})"""
COSINE = """(SELECT 1 - min(p.vector <=> %(vector)s::vector) FROM memory_passages p
    WHERE p.record_id = memory_records.id)"""


@dataclass(frozen=True)
class Turn:
    """A seed or a neighbour, with its evidence."""

    id: UUID
    thread: str  # its owner and conversation: clients choose the names of conversations, and two may choose one
    position: int
    at: datetime
    speaker: str
    text: str
    cosine: float | None
    hits: list[bool]
    bits: bytes


def turns_around(scope: Condition, question: Question, seeds: Sequence[Candidate]) -> list[Turn]:
    """The seeds and their neighbours in the scope."""
    numbers = range(len(question.terms))
    sql = AROUND.format(
        cosine=COSINE if question.vector is not None else "NULL::float8",
        hits=", ".join(f"search @@ %(term{n})s::tsquery" for n in numbers),
        scope=scope.sql,
    )
    in_threads = [seed for seed in seeds if seed.conversation_id and seed.position is not None]
    values = {
        "seeds": [seed.id for seed in seeds],
        "threads": [seed.conversation_id for seed in in_threads],
        "positions": [seed.position for seed in in_threads],
        "reach": NEIGHBOURS,
        "vector": str(list(question.vector)) if question.vector is not None else None,
        **{f"term{n}": question.terms[n].tsquery for n in numbers},
    }
    return [
        Turn(pk, thread, position or 0, at, speaker, text, cosine, hits, b"".join(row for row in bits if row))
        for pk, thread, position, at, speaker, text, cosine, hits, bits in prepared_statements.rows(
            sql, {**scope.params, **values}, binary=True
        )
    ]


def ranked(
    scope: Condition,
    question: Question,
    seeds: Sequence[Candidate],
    idfs: Sequence[float],
    tokens: Tokens | None,
) -> tuple[list[Ranked], str]:
    """The seeds and what stands around them, best first, and the name of the formula. `idfs` are those of the terms."""
    turns = turns_around(scope, question, seeds)
    idf_of = {term.lexeme: idf for term, idf in zip(question.terms, idfs, strict=True)}
    weights = None
    if tokens is not None:
        weights = token_bits.weights_of(tokens, term_statistics.idf_of_words(tokens.words, idf_of))
    scores, stage = score(question, turns, idfs, tokens, weights)
    bonus = {seed.id: seed.bonus for seed in seeds}
    total = sum(idfs) or 1.0
    rows = []
    for turn in turns:
        coverage = sum(idf for idf, is_there in zip(idfs, turn.hits, strict=True) if is_there) / total
        extra = bonus.get(turn.id, 0.0)
        rows.append(
            Ranked(
                turn.id, turn.at, scores[turn.id] + extra, turn.cosine, coverage, extra,
                plain(turn.cosine, coverage) + extra,
            )
        )  # fmt: skip
    return sorted(rows, key=order), stage


def score(
    question: Question, turns: Sequence[Turn], idfs: Sequence[float], tokens: Tokens | None, weights: Vectors | None
) -> tuple[dict[UUID, float], str]:
    """Each turn's score, and which formula made it: context with tokens, or without. `idfs` are those of the question's
    terms, `weights` those of its word pieces."""
    links = _links(turns)
    constants = settings.RECALL_CONTEXT
    cosines = np.array([turn.cosine or 0.0 for turn in turns], dtype=np.float32)
    around = _averaged(cosines, turns)
    hits = np.array([turn.hits for turn in turns], dtype=np.float32).reshape(len(turns), -1).T
    shares = np.asarray(idfs, dtype=np.float32) / (sum(idfs) or 1.0)
    words = shares @ _spread(hits, links) if hits.size else np.zeros(len(turns))
    cues = _cues(question, turns)
    without_tokens = (
        constants["cosine_without_tokens"] * around
        + constants["words_without_tokens"] * words
        + constants["speaker_without_tokens"] * cues["speaker"]
        + constants["date_without_tokens"] * cues["date"]
    )
    name, total = "context", without_tokens
    if tokens is not None and weights is not None and any(turn.bits for turn in turns):
        similarity = weights @ _spread(token_bits.similarities(tokens, [turn.bits for turn in turns]), links)
        total = (
            similarity
            + constants["cosine"] * around
            + constants["words"] * words
            + constants["speaker"] * cues["speaker"]
            + constants["date"] * cues["date"]
        )
        has_bits = np.array([bool(turn.bits) for turn in turns])
        name, total = "context with tokens", np.where(has_bits, total, without_tokens)
    total = total + constants["when"] * cues["when"] - constants["asks"] * cues["asks"]
    return {turn.id: float(total[n]) for n, turn in enumerate(turns)}, name


def _links(turns: Sequence[Turn]) -> Vectors:
    """(turns, turns): how much evidence at the column's turn counts at the row's; 1 at itself, 0 in other threads."""
    links = np.eye(len(turns), dtype=np.float32)
    pause = timedelta(seconds=settings.THREAD_PAUSE_S)
    by_thread: dict[str, list[int]] = {}
    for n, turn in enumerate(turns):
        if turn.thread:
            by_thread.setdefault(turn.thread, []).append(n)
    for members in by_thread.values():
        members.sort(key=lambda n: turns[n].position)
        for rank, n in enumerate(members):
            for m in members[rank + 1 :]:
                distance = turns[m].position - turns[n].position
                if distance > max(BEFORE, AFTER) or abs(turns[m].at - turns[n].at) > pause:
                    break
                if distance <= BEFORE:  # what was said before counts for what comes after
                    links[m, n] = DECAY_BEFORE**distance
                if distance <= AFTER:
                    links[n, m] = DECAY_AFTER**distance
    return links


def _spread(evidence: Vectors, links: Vectors) -> Vectors:
    """(kinds, turns) → the same, each turn with the best of what reaches it."""
    return np.asarray(np.max(evidence[:, None, :] * links[None, :, :], axis=2), dtype=np.float32)


def _averaged(cosines: Vectors, turns: Sequence[Turn]) -> Vectors:
    """(cos + ½ previous + ½ next) / 2; a missing neighbour counts as its own."""
    row_of = {(turn.thread, turn.position): n for n, turn in enumerate(turns) if turn.thread}
    pause = timedelta(seconds=settings.THREAD_PAUSE_S)
    averaged = np.empty(len(turns), dtype=np.float32)
    for n, turn in enumerate(turns):
        near = [row_of.get((turn.thread, turn.position + step)) for step in (-1, 1)]
        sides = [m if m is not None and abs(turns[m].at - turn.at) <= pause else n for m in near]
        averaged[n] = (cosines[n] + cosines[sides[0]] / 2 + cosines[sides[1]] / 2) / 2
    return averaged


def _cues(question: Question, turns: Sequence[Turn]) -> dict[str, Vectors]:
    names = set(question.cues.names)
    speakers = {turn.speaker for turn in turns if turn.speaker in names}
    speaker = next(iter(speakers)) if len(speakers) == 1 else None
    columns = {
        "speaker": [turn.speaker == speaker for turn in turns],
        "date": [question.cues.date(turn.at) if turn.thread else 0.0 for turn in turns],
        "when": [question.cues.time(turn.text) for turn in turns],
        "asks": [asks(turn.text) for turn in turns],
    }
    return {name: np.array(values, dtype=np.float32) for name, values in columns.items()}
