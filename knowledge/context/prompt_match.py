"""Memories that match what a person has asked an agent to do.

Nobody asked for them, so a memory must reach MIN_SCORE, which is higher than what a search requires, and come
close to the best one. bench/prompts.py measures both limits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from django.db import transaction

from foundation.database import prepared_statements
from foundation.people.caller import Caller
from knowledge.context.attachable import compiled_attachable
from knowledge.context.call_match import USUAL_COSINE, embed_within
from knowledge.context.time_limit import PATIENCE, set_timeout
from knowledge.entities import entity_linking
from memories.models import MemoryRecord
from memories.retrieval import term_statistics
from memories.retrieval.ranking import SEMANTIC_WEIGHT, RecallQuestion, candidates

MIN_SCORE = 0.32  # with a lower one, more memories come along, and more of them are off the subject (bench/prompts.py)

MAX_PROMPT = 2_000  # characters at the start of a prompt that are compared; the rest is mostly pasted material
CANDIDATES = 20
CLOSE_TO_BEST = 0.7  # minimum score, as a share of the best memory's


def memories_for_prompt(caller: Caller, prompt: str, deadline: float) -> list[MemoryRecord]:
    """Return the memories that match a prompt, best first, or [] if none matches well enough.

    `deadline` is a time of time.monotonic(). Raises OperationalError if a statement is canceled because of it. If the
    embedding model is not available in time, words alone decide.
    """
    text = prompt[:MAX_PROMPT]
    vector, model, _ = embed_within(text, (deadline - time.monotonic()) * PATIENCE)
    with transaction.atomic():
        set_timeout(deadline)
        urns = [mention.urn for mention in entity_linking.mentions_in([text])[0]]
        terms = term_statistics.query_terms(text, caller)
        question = RecallQuestion(vector=vector, model=model, terms=terms, distances=dict.fromkeys(urns, 0))
        searched = compiled_attachable(caller)
        rows, _ = candidates(searched, question, CANDIDATES)
        rows = sorted(rows, key=lambda row: -row.score)
        # Without a vector, the usual cosine is assumed, or no words would suffice.
        assumed = SEMANTIC_WEIGHT * USUAL_COSINE if vector is None else 0.0
        best = rows[0].score + assumed if rows else 0.0
        least = max(MIN_SCORE, CLOSE_TO_BEST * best)
        matching = [row.id for row in rows if row.score + assumed >= least]
        criterion = f"id = ANY(%(ids)s) AND {searched.sql}"
        values = {**searched.params, "ids": matching}
        found = prepared_statements.instances(MemoryRecord, criterion, values, defer=["search"]) if matching else []
        records = {record.pk: record for record in found}
    return _distinct([records[pk] for pk in matching if pk in records])


def _distinct(records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
    """Return the records without those whose text an earlier one of the same author has."""
    first: dict[tuple[str, str], MemoryRecord] = {}
    for record in records:
        first.setdefault((record.created_by, record.content_key), record)
    return list(first.values())
