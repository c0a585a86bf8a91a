"""Measure knowledge debt: reading the audit log, computing the debts, and the curator's list.

    python bench/debt.py [--rows 200000] [--events 1000000] [--rounds 5]

Fills its own database (page_data.py), with events that name entities. Prints seconds for reading all events, for
reading those of one more hour, and for computing; then milliseconds and numbers of queries of the list, a late page,
a search, one reason, and of asking a person.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import scratch
from page_data import fill
from page_rows import CURATOR, Size, ago, dice, insert, one_of, owner, rare, urn


def add_events(size: Size, count: int, *, minutes: int) -> None:
    from memory_project.models import AuditEvent  # noqa: PLC0415 - after setup()

    entity = urn(rare(145, size.entities))
    insert(
        AuditEvent, count, at=ago(140, minutes), email=owner(dice(141, size.owners)),
        persona=f"'persona' || {dice(142, size.personas)}", channel="'mcp-http'", outcome="'ok'", duration_ms="5",
        tool=one_of(("memory_recall", "catalog_entity"), 143), hits=f"{dice(144, 4)}",
        arguments=f"jsonb_build_object('entity_urns', jsonb_build_array({entity}), 'query', 'refunds')",
    )  # fmt: skip


def timed(label: str, act: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = act()
    print(f"{label:48} {time.perf_counter() - start:8.1f} s   {result}", flush=True)
    return result


def measured(label: str, rounds: int, act: Callable[[], Any]) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    times, counts = [], 0

    def count(run: Any, *rest: Any) -> Any:
        nonlocal counts
        counts += 1
        return run(*rest)

    for _ in range(rounds):
        counts, start = 0, time.perf_counter()
        with connection.execute_wrapper(count):
            act()
        times.append(1000 * (time.perf_counter() - start))
    print(f"{label:48} {statistics.median(times):8.0f} ms  {counts} queries", flush=True)


def run(size: Size, events: int, rounds: int) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()
    from django.utils import timezone  # noqa: PLC0415 - after setup()

    from foundation.database import identity  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from knowledge.debt import computation, experts, interviews, queries  # noqa: PLC0415 - after setup()
    from knowledge.debt.operations import AskQuestions  # noqa: PLC0415 - after setup()
    from knowledge.models import EntityDebt, EntityUse  # noqa: PLC0415 - after setup()
    from memory_project.audit import entity_uses  # noqa: PLC0415 - after setup()
    from memory_project.models import AuditEvent, User  # noqa: PLC0415 - after setup()

    fill(size)
    add_events(size, events, minutes=100_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    timed(f"read {AuditEvent.objects.count():,} events", entity_uses.count_new_calls)
    timed("compute for the first time", computation.compute)
    add_events(size, events // 2_000, minutes=1)
    AuditEvent.objects.filter(at__gt=timezone.now() - timedelta(minutes=2)).update(
        at=timezone.now() - timedelta(minutes=2, seconds=1)
    )
    timed("read the events of another hour", entity_uses.count_new_calls)
    timed("compute again", computation.compute)
    print(f"{EntityUse.objects.count():,} uses, {EntityDebt.objects.count():,} debts")
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    curator, asker = (
        build_caller(User.objects.get(email=email), channel="command") for email in (CURATOR, "owner7@bench.example")
    )

    def show(chosen: queries.DebtFilter, after: str = "") -> None:
        page = queries.debt_page(curator, chosen, after)
        experts.experts(curator, [row.urn for row in page.rows])
        queries.domains(curator)
        computation.computed_at()

    with identity.acting_as(curator):
        measured("the list", rounds, lambda: show(queries.DebtFilter()))
        measured("a late page", rounds, lambda: show(queries.DebtFilter(), "1.5~urn"))
        measured("a search", rounds, lambda: show(queries.DebtFilter(text="table_17")))
        measured("one reason", rounds, lambda: show(queries.DebtFilter(reason="stale")))
    with identity.acting_as(asker):
        measured("questions for a person", 1, lambda: interviews.ask(asker, AskQuestions()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="memories (default: %(default)s)")
    parser.add_argument("--events", type=int, default=1_000_000, help="calls (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="requests for each page (default: %(default)s)")
    arguments = parser.parse_args()
    scratch.setup()
    with scratch.database():
        run(Size(arguments.rows), arguments.events, arguments.rounds)


if __name__ == "__main__":
    main()
