"""The entities that calls were about, read from new events of the audit log.

A call is about the entities in its arguments, and those that the question of a recall names. Texts of calls are read
here and not kept. The audit log has no statements, so tables that were only queried by SQL count by the memories that
were attached to these calls (knowledge/debt/uses.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from django.utils import timezone

from foundation.operations.fields import URN_PATTERN
from knowledge.debt import uses
from knowledge.debt.uses import Counts, Use
from knowledge.entities import entity_linking
from memory_project.models import AuditEvent

BATCH = 5_000  # events that are read, and counted, at once
ENTITY_ARGUMENTS = ("urn", "entity_urn", "entity_urns", "entities")
QUESTION = "query"  # the argument with the question of a recall
AT_ONCE = 200  # questions whose names are resolved with one query
Event = tuple[Any, ...]


def count_new_calls() -> int:
    """Count the calls since the last run. Return how many were read."""
    since = uses.read_until(uses.CALLS)
    until = timezone.now() - uses.SETTLED
    rows = AuditEvent.objects.filter(at__gt=since, at__lte=until, outcome=AuditEvent.Outcome.OK).exclude(email="")
    rows = rows.filter(arguments__has_any_keys=[*ENTITY_ARGUMENTS, QUESTION]).order_by("at", "pk")
    events = rows.values_list("at", "email", "persona", "hits", "arguments")
    total = 0
    while batch := _whole_moments(list(events.filter(at__gt=since)[:BATCH])):
        total += len(batch)
        uses.add_calls(_counted(batch), since=since, until=batch[-1][0])
        since = batch[-1][0]
    uses.add_calls({}, since=since, until=max(since, until))
    return total


def _whole_moments(batch: list[Event]) -> list[Event]:
    """Leave out the last moment of a full batch, because the next batch begins after a moment."""
    if len(batch) < BATCH or batch[0][0] == batch[-1][0]:
        return batch
    return [event for event in batch if event[0] < batch[-1][0]]


def _counted(batch: Sequence[Event]) -> dict[Use, Counts]:
    counts: dict[Use, Counts] = defaultdict(Counts)
    for (at, email, persona, hits, _), urns in zip(batch, _urns_of(batch), strict=True):
        for urn in urns:
            count = counts[Use(urn, persona, email, uses.monday_of(at))]
            count.calls += 1
            count.unanswered += hits == 0
    return counts


def _urns_of(batch: Sequence[Event]) -> Iterator[list[str]]:
    for start in range(0, len(batch), AT_ONCE):
        events = batch[start : start + AT_ONCE]
        named = [list(_named(event[-1])) for event in events]
        questions = [str(event[-1].get(QUESTION) or "") for event in events]
        mentions = entity_linking.mentions_in(questions)
        resolved = _resolved(sorted({name for given in named for name in given if not URN_PATTERN.fullmatch(name)}))
        for given, mentioned in zip(named, mentions, strict=True):
            urns = [name if URN_PATTERN.fullmatch(name) else resolved.get(name, "") for name in given]
            yield list(dict.fromkeys(filter(None, [*urns, *(mention.urn for mention in mentioned)])))


def _resolved(names: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for start in range(0, len(names), entity_linking.MAX_NAMES):
        found |= entity_linking.resolve(names[start : start + entity_linking.MAX_NAMES])
    return found


def _named(arguments: dict[str, Any]) -> Iterator[str]:
    for name in ENTITY_ARGUMENTS:
        value = arguments.get(name)
        yield from (item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str) and item)
