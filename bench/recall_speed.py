"""How fast recall answers, and what the vector index loses, at 10,000 and 100,000 memories of 100 owners.

    python bench/recall_speed.py [--sizes 10000,100000] [--queries 200]

Prints p50 and p95 of the whole recall beside the bare embedding of the query and the bare SQL of the same run
(compare within one run: machines differ), then recall@10 of the semantic arm against an exact scan, for owners
of 10, 1,000 and 50,000 memories. Texts are made from templates; 4,000 of them are embedded with the configured
model, the others get one of those vectors with noise, so that the space is as crowded as a real one.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scratch

SUBJECTS = [
    "revenue",
    "refunds",
    "orders",
    "returns",
    "shipments",
    "stock",
    "suppliers",
    "prices",
    "discounts",
    "visitors",
    "sessions",
    "carts",
]
TABLES = [
    "sales.orders",
    "sales.refunds",
    "inventory.stock_levels",
    "supply.shipments",
    "web.sessions",
    "product.prices",
]
VERBS = "excludes includes double-counts is delayed in|was migrated from|is derived from|ignores".replace(
    " is ", "| is "
)
TAILS = [
    "tax",
    "test stores",
    "outlets",
    "gift cards",
    "cancelled rows",
    "the web shop",
    "training tills",
    "exchange rates",
]
PERIODS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
EMBEDDED = 4_000
ROUNDS_BEFORE = 20


def sentence(dice: random.Random) -> str:
    verb = dice.choice(VERBS.split("|")).strip()
    return (
        f"{dice.choice(SUBJECTS).capitalize()} in {dice.choice(TABLES)} {verb} {dice.choice(TAILS)} "
        f"since {dice.choice(PERIODS)} {dice.randint(2015, 2026)}, ticket DATA-{dice.randint(1, 99999)}."
    )


def owners(size: int, dice: random.Random) -> list[str]:
    """An owner for each memory: owners 0 to 2 have 10, 1,000 and half of all, 97 others share the rest."""
    sizes = [10, min(1_000, size // 10), size // 2]
    special = [f"owner{number}@example.org" for number, count in enumerate(sizes) for _ in range(count)]
    return special + [f"owner{dice.randint(3, 99)}@example.org" for _ in range(size - len(special))]


def fill(size: int) -> list[str]:
    """Loads the memories with COPY and builds the indexes afterwards, as a bulk import would."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memories import embedding  # noqa: PLC0415 - after setup()
    from memories.retrieval import lexicon  # noqa: PLC0415

    dice, noise = random.Random(7), np.random.default_rng(7)
    texts = [sentence(dice) for _ in range(size)]
    base, model = embedding.embed(texts[:EMBEDDED], wait_s=60)
    columns = (
        "id, created_at, updated_at, created_by, persona, visibility, dimension, category, confidence, source, "
        "content, summary, tags, entity_urns, related_columns, metadata, embedding, embedding_model, status, "
        "stale_reason, tier, conversation_id, role, importance, access_count, enrichment_status"
    )
    with (
        scratch.without_vector_index(),
        connection.cursor() as cursor,
        cursor.copy(f"COPY memory_records ({columns}) FROM STDIN") as copy,
    ):
        for number, (text, owner) in enumerate(zip(texts, owners(size, dice), strict=True)):
            vector = base[number % len(base)]
            if number >= len(base):
                vector = vector + noise.normal(scale=0.02, size=vector.shape)
                vector = vector / np.linalg.norm(vector)
            copy.write_row(
                (
                    *(
                        f"00000000-0000-4000-8000-{number:012d}",
                        "2026-01-01",
                        "2026-01-01",
                        owner,
                        "analyst",
                        "private",
                    ),
                    *("knowledge", "business_context", "medium", "user", text, "", "{}", "{}", "[]", "{}"),
                    *(str(vector.tolist()), model, "active", "", "", "", "", 0.5, 0, ""),
                )
            )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE memory_records")
    lexicon.refresh()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_lexemes")
    return texts


def timed(act: Callable[..., Any], *args: Any, **keywords: Any) -> float:
    started = time.perf_counter()
    act(*args, **keywords)
    return (time.perf_counter() - started) * 1000


def row(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    print(f"  {name:<44}{statistics.median(ordered):>8.1f}{ordered[int(len(ordered) * 0.95) - 1]:>8.1f}")


def person(number: int) -> Any:
    from memories.access import Caller  # noqa: PLC0415 - after setup()

    return Caller(email=f"owner{number}@example.org", persona="analyst", personas=frozenset({"analyst"}))


def speed(texts: list[str], queries: int) -> None:
    from memories import embedding  # noqa: PLC0415 - after setup()
    from memories.access import operator  # noqa: PLC0415
    from memories.retrieval import lexicon  # noqa: PLC0415 - after setup()
    from memories.retrieval.search import Filters, Question, in_scope, ranking, recall  # noqa: PLC0415

    dice = random.Random(11)
    samples = [" ".join(dice.sample(dice.choice(texts).split(), 6)) for _ in range(queries + ROUNDS_BEFORE)]
    kinds: dict[str, Callable[[], Any]] = {
        "an owner of about 0.5 % (exact scan)": lambda: person(dice.randint(3, 99)),
        "the owner of half of all (index)": lambda: person(2),
        "an admin, who sees all (index)": operator,
    }
    print(f"  {'ms':<44}{'p50':>8}{'p95':>8}")
    row(
        "bare embedding of the query",
        [timed(embedding.embed_one, q) for q in samples][ROUNDS_BEFORE:],
    )
    for name, make_caller in kinds.items():
        whole, bare = [], []
        for query in samples:
            caller = make_caller()
            whole.append(timed(recall, caller=caller, query=query))
            vector, _ = embedding.embed_one(query)
            question = Question(vector=vector, terms=lexicon.query_terms(query))
            sql, params = ranking(in_scope(caller, Filters()), question, 10)
            bare.append(timed(run, sql, params))
        row(f"recall: {name}", whole[ROUNDS_BEFORE:])
        row("    its one ranking statement, bare SQL", bare[ROUNDS_BEFORE:])


def run(sql: str, params: Any) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        cursor.fetchall()


def index_recall(texts: list[str], queries: int) -> None:
    from memories import embedding  # noqa: PLC0415 - after setup()
    from memories.retrieval.search import Filters, in_scope, is_small, nearest  # noqa: PLC0415

    dice = random.Random(13)
    print(f"  {'recall@10 of the semantic arm against an exact scan':<60}{'way':>8}{'recall':>8}")
    for number in (0, 1, 2):
        scope = in_scope(person(number), Filters())
        small, shares = is_small(scope), []
        for _ in range(queries):
            vector, _ = embedding.embed_one(" ".join(dice.sample(dice.choice(texts).split(), 6)))
            best = set(nearest(scope, vector, exact=True).values_list("pk", flat=True)[:10])
            hits = set(nearest(scope, vector, exact=small).values_list("pk", flat=True)[:50][:10])
            shares.append(len(best & hits) / max(len(best), 1))
        way = "exact" if small else "index"
        print(f"  {'owner of ' + format(scope.count(), ','):<60}{way:>8}{statistics.fmean(shares):>8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    scratch.setup()
    for size in (int(part) for part in options.sizes.split(",")):
        with scratch.database():
            texts = fill(size)
            print(f"{size:,} memories, 100 owners, {options.queries} queries")
            speed(texts, options.queries)
            index_recall(texts, options.queries)


if __name__ == "__main__":
    main()
