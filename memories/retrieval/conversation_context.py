"""The second stage of recall: rank the turns of a conversation together with the turns around them.

The seeds are the best candidates of the first stage (ranking.py). The neighbors of a seed are the turns next to it in
its conversation. Neighbors that the filters allow are ranked too, because a neighbor may answer the question better
than the seed. The evidence of a turn is that it contains terms of the question, or word pieces similar to those of the
question. This evidence also counts for the turns around that turn, less with every turn of distance. A memory that is
not part of a conversation has only its own evidence. The score is the sum below, plus the bonus of the first stage for
named and related entities:

    with token bits     Σ w·ctx(sim) + .4·cosA + .2·Σ share·ctx(hit) + .15 speaker + .3 date + .05 when − .02 asks
    without token bits  .6·cosA + .45·Σ share·ctx(hit) + .2 speaker + .4 date + .05 when − .02 asks
    without vectors     the same as without token bits, with cosA = 0

    ctx(x)  the best x of the turn itself and the turns around it, each multiplied by the decay for its distance
    sim, w  similarity of a turn to a word piece of the question, and the weight of that piece
    hit     1 if a turn contains a term of the question; share is the term's idf divided by the sum of all terms' idf
    cosA    (turn's cosine + ½ previous turn's cosine + ½ next turn's cosine) / 2

speaker, date, when and asks are explained in question_features.py. The weights are the constants below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from foundation.database import prepared_statements, sql_files
from foundation.database.queryset_sql import Condition
from foundation.embedding import Tokens, Vectors
from foundation.lazy_numpy import np
from memories.retrieval import term_statistics, token_similarity
from memories.retrieval.question_features import asks
from memories.retrieval.ranking import Ranked, RankedCandidate, RecallQuestion, order, plain_score

# two turns of a conversation that are farther apart are not each other's context
THREAD_PAUSE = timedelta(hours=1)
# Weights of the cues, chosen on five conversations of LoCoMo with bench/recall_quality.py: with the vectors of tokens,
# whose similarity has the weight 1, and without them.
COSINE_WEIGHT = 0.4
WORDS_WEIGHT = 0.2
SPEAKER_WEIGHT = 0.15
DATE_WEIGHT = 0.3
COSINE_WEIGHT_WITHOUT_TOKENS = 0.6
WORDS_WEIGHT_WITHOUT_TOKENS = 0.45
SPEAKER_WEIGHT_WITHOUT_TOKENS = 0.2
DATE_WEIGHT_WITHOUT_TOKENS = 0.4
WHEN_WEIGHT = 0.05
ASKS_WEIGHT = 0.02

SQL = sql_files.statements(__file__)
SEEDS = 40  # maximum number of candidates of the first stage that are seeds
NEIGHBORS = 2  # number of turns fetched on either side of a seed
BEFORE, AFTER = 5, 2  # number of earlier turns, and of later turns, whose evidence counts for a turn
DECAY_BEFORE, DECAY_AFTER = 0.9, 0.7  # factors on the evidence of earlier and of later turns, per turn of distance


@dataclass(frozen=True)
class ContextTurn:
    """A seed or one of its neighbors, with its evidence."""

    id: UUID
    # Owner and conversation id, because two users may choose the same conversation id. Empty outside of conversations.
    thread: str
    position: int
    at: datetime
    speaker: str
    text: str
    cosine: float | None
    hits: list[bool]  # for each term of the question, whether the turn contains it
    bits: bytes  # concatenated token bits of all passages of the turn


def around(searched: Condition, question: RecallQuestion) -> str:
    """Return the statement for the seeds and their neighbors among the searched rows."""
    return SQL["around"].format(
        cosine=SQL["cosine"] if question.vector is not None else "NULL::float8",
        hits=", ".join(f"search @@ %(term{n})s::tsquery" for n in range(len(question.terms))),
        searched=searched.sql,
    )


def load_turns(searched: Condition, question: RecallQuestion, seeds: Sequence[RankedCandidate]) -> list[ContextTurn]:
    """Return the seeds, and those of their neighbors that are among the searched rows."""
    in_threads = [seed for seed in seeds if seed.conversation_id and seed.position is not None]
    values = {
        "seeds": [seed.id for seed in seeds],
        "threads": [seed.conversation_id for seed in in_threads],
        "positions": [seed.position for seed in in_threads],
        "reach": NEIGHBORS,
        "model": question.model,
        "vector": str(list(question.vector)) if question.vector is not None else None,
        **{f"term{n}": term.tsquery for n, term in enumerate(question.terms)},
    }
    return [
        ContextTurn(pk, thread, position or 0, at, speaker, text, cosine, hits, b"".join(row for row in bits if row))
        for pk, thread, position, at, speaker, text, cosine, hits, bits in prepared_statements.rows(
            around(searched, question), {**searched.params, **values}, binary=True
        )
    ]


def rank_in_context(
    searched: Condition,
    question: RecallQuestion,
    seeds: Sequence[RankedCandidate],
    idfs: Sequence[float],
    tokens: Tokens | None,
) -> tuple[list[Ranked], str]:
    """Return the seeds and their neighbors, best first, and the name of the formula.

    `idfs` has one number for each of `question.terms`. `tokens` has the word pieces of the question, or is None without
    them.
    """
    turns = load_turns(searched, question, seeds)
    idf_of = {term.lexeme: idf for term, idf in zip(question.terms, idfs, strict=True)}
    weights = None
    if tokens is not None:
        weights = token_similarity.weights_of(tokens, term_statistics.idf_of_words(tokens.words, idf_of))
    scores, formula = score_turns(question, turns, idfs, tokens, weights)
    bonus = {seed.id: seed.bonus for seed in seeds}
    total = sum(idfs) or 1.0
    rows = []
    for turn in turns:
        coverage = sum(idf for idf, hit in zip(idfs, turn.hits, strict=True) if hit) / total
        extra = bonus.get(turn.id, 0.0)
        rows.append(
            Ranked(
                turn.id, turn.at, scores[turn.id] + extra, turn.cosine, coverage, extra,
                plain_score(turn.cosine, coverage) + extra,
            )
        )  # fmt: skip
    return sorted(rows, key=order), formula


def score_turns(
    question: RecallQuestion,
    turns: Sequence[ContextTurn],
    idfs: Sequence[float],
    tokens: Tokens | None,
    weights: Vectors | None,
) -> tuple[dict[UUID, float], str]:
    """Return the score of each turn and the name of the formula.

    `idfs` has one number for each of `question.terms`, and `weights` one for each word piece in `tokens`.
    """
    links = _links(turns)
    cosines = np.array([turn.cosine or 0.0 for turn in turns], dtype=np.float32)
    averaged_cosines = _averaged(cosines, turns)
    hits = np.array([turn.hits for turn in turns], dtype=np.float32).reshape(len(turns), -1).T
    shares = np.asarray(idfs, dtype=np.float32) / (sum(idfs) or 1.0)
    words = shares @ _best_in_reach(hits, links) if hits.size else np.zeros(len(turns))
    cues = _cues(question, turns)
    without_tokens = (
        COSINE_WEIGHT_WITHOUT_TOKENS * averaged_cosines
        + WORDS_WEIGHT_WITHOUT_TOKENS * words
        + SPEAKER_WEIGHT_WITHOUT_TOKENS * cues["speaker"]
        + DATE_WEIGHT_WITHOUT_TOKENS * cues["date"]
    )
    formula = "context"
    total = without_tokens
    if tokens is not None and weights is not None and any(turn.bits for turn in turns):
        similarity = weights @ _best_in_reach(
            token_similarity.similarities(tokens, [turn.bits for turn in turns]), links
        )
        total = (
            similarity
            + COSINE_WEIGHT * averaged_cosines
            + WORDS_WEIGHT * words
            + SPEAKER_WEIGHT * cues["speaker"]
            + DATE_WEIGHT * cues["date"]
        )
        has_bits = np.array([bool(turn.bits) for turn in turns])
        formula = "context with tokens"
        total = np.where(has_bits, total, without_tokens)
    total = total + WHEN_WEIGHT * cues["when"] - ASKS_WEIGHT * cues["asks"]
    return {turn.id: float(total[n]) for n, turn in enumerate(turns)}, formula


def _links(turns: Sequence[ContextTurn]) -> Vectors:
    """Return a matrix (turns, turns) of the factor with which the evidence of the column's turn counts for the row's.

    The factor is 1 on the diagonal. It is 0 between different conversations, between turns more than THREAD_PAUSE
    apart, and beyond BEFORE and AFTER.
    """
    links = np.eye(len(turns), dtype=np.float32)
    by_thread: dict[str, list[int]] = {}
    for n, turn in enumerate(turns):
        if turn.thread:
            by_thread.setdefault(turn.thread, []).append(n)
    for members in by_thread.values():
        members.sort(key=lambda n: turns[n].position)
        for rank, n in enumerate(members):
            for m in members[rank + 1 :]:
                distance = turns[m].position - turns[n].position
                if distance > max(BEFORE, AFTER) or abs(turns[m].at - turns[n].at) > THREAD_PAUSE:
                    break
                if distance <= BEFORE:
                    links[m, n] = DECAY_BEFORE**distance
                if distance <= AFTER:
                    links[n, m] = DECAY_AFTER**distance
    return links


def _best_in_reach(evidence: Vectors, links: Vectors) -> Vectors:
    """Return a matrix of the best evidence for each turn, after decay.

    The result and `evidence` have a row for each term or word piece of the question, and a column for each turn.
    """
    return np.asarray(np.max(evidence[:, None, :] * links[None, :, :], axis=2), dtype=np.float32)


def _averaged(cosines: Vectors, turns: Sequence[ContextTurn]) -> Vectors:
    """Return (turn's cosine + ½ previous turn's cosine + ½ next turn's cosine) / 2 for each turn.

    A turn's own cosine replaces that of an adjacent turn that is not among `turns` or more than THREAD_PAUSE away.
    """
    row_of = {(turn.thread, turn.position): n for n, turn in enumerate(turns) if turn.thread}
    averaged = np.empty(len(turns), dtype=np.float32)
    for n, turn in enumerate(turns):
        adjacent = [row_of.get((turn.thread, turn.position + step)) for step in (-1, 1)]
        sides = [m if m is not None and abs(turns[m].at - turn.at) <= THREAD_PAUSE else n for m in adjacent]
        averaged[n] = (cosines[n] + cosines[sides[0]] / 2 + cosines[sides[1]] / 2) / 2
    return averaged


def _cues(question: RecallQuestion, turns: Sequence[ContextTurn]) -> dict[str, Vectors]:
    names = set(question.cues.names)
    speakers = {turn.speaker for turn in turns if turn.speaker in names}
    # If the question names several speakers, it is unknown which of them it asks about.
    speaker = next(iter(speakers)) if len(speakers) == 1 else None
    columns = {
        "speaker": [turn.speaker == speaker for turn in turns],
        "date": [question.cues.date(turn.at) if turn.thread else 0.0 for turn in turns],
        "when": [question.cues.time(turn.text) for turn in turns],
        "asks": [asks(turn.text) for turn in turns],
    }
    return {name: np.array(values, dtype=np.float32) for name, values in columns.items()}
