"""Measure recall and writing through stdio against their bare work, and the accuracy of the vector index.

    python bench/recall_speed.py one   [--size 10000] [--queries 100]
    python bench/recall_speed.py many  [--sizes 10000,100000] [--queries 100]

`one`: one owner has all memories. Prints p50 and p95 of:

- embedding the query alone
- the SQL alone: the exact cosine top ten of the rows searched
- recall through stdio, with plain ranking and with conversation context (the memories are turns of conversations)
- a write through stdio
- the first tools/list of a new process, against importing Django and the SDK alone

The ratios to the bare work come from the same run.

`many`: 100 owners, one of whom has half of all memories, at growing table sizes. Measures recall in process for an
owner of 100 memories, the owner of half, and an admin, and recall@10 of the index against an exact scan. Texts are made
from templates. 4,000 of them are embedded with the configured model; each of the others gets one of those vectors with
added noise.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from uuid import UUID

import numpy as np
import scratch

VOCABULARY = (
    "revenue refunds orders returns shipments stock suppliers prices discounts visitors sessions carts stores ledger "
    "currency exchange tills training outlets gift cards exports invoices margin tax customers loyalty regions pallets"
)
WORDS = VOCABULARY.split()
TABLES = ("sales.orders", "sales.refunds", "inventory.stock_levels", "supply.shipments", "web.sessions")
VERBS = ("excludes", "includes", "double-counts", "is delayed in", "was migrated from", "is derived from", "ignores")
EMBEDDED = 4_000
THREAD = 20  # turns per conversation
OWNER = "owner@bench.example"
RECORD_COLUMNS = (
    "id, created_at, updated_at, created_by, persona, visibility, dimension, category, confidence, source, "
    "content, summary, tags, entity_urns, detected_urns, dismissed_urns, related_columns, metadata, embedding_model, "
    "embedding_text_hash, status, stale_reason, tier, conversation_id, author, thread_position, importance, "
    "access_count, enrichment_status, role, language, valid_while, scope, attachment, unsettled"
)
PASSAGE_COLUMNS = "record_id, start, stop, vector, token_bits, short_term"
WARM_UP = 10  # warm-up calls that are not counted


def sentence(dice: random.Random) -> str:
    words = " ".join(dice.sample(WORDS, 4))
    return (
        f"{dice.choice(WORDS).capitalize()} in {dice.choice(TABLES)} {dice.choice(VERBS)} {words} "
        f"since {dice.randint(2015, 2026)}, ticket DATA-{dice.randint(1, 99999)}."
    )


def sentences(size: int) -> list[str]:
    dice = random.Random(7)
    return [sentence(dice) for _ in range(size)]


def vectors_for(size: int, texts: list[str]) -> Iterator[tuple[Any, bytes | None]]:
    """Yield a vector and token bits for each text: computed ones first, then noisy copies of them."""
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from memories.retrieval.token_similarity import bits_of  # noqa: PLC0415 - after setup()

    noise = np.random.default_rng(7)
    vectors, tokens, _ = embedding.embed_tokens(texts[:EMBEDDED], wait_s=60)
    bits = [bits_of(entry) for entry in tokens or []]
    for number in range(size):
        base = number % len(vectors)
        vector = vectors[base]
        if number >= len(vectors):
            vector = vector + noise.normal(scale=0.02, size=vector.shape)
            vector = vector / np.linalg.norm(vector)
        yield vector, bits[base] if bits else None


def load(size: int, owner_of: Callable[[int], str], *, in_threads: bool = False) -> list[str]:
    """Fill the tables with COPY, then train the vector index as a worker would."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memories.retrieval import term_statistics, vector_index  # noqa: PLC0415 - after setup()

    started = time.perf_counter()
    texts, dice = sentences(size), random.Random(8)
    ids = [UUID(int=dice.getrandbits(128), version=4) for _ in range(size)]
    first = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    vectors = vectors_for(size, texts)
    # embedding releases the database connection, so it must come before the cursor is opened
    first_vector = next(vectors)
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY memory_records ({RECORD_COLUMNS}) FROM STDIN") as copy:
            for number, text in enumerate(texts):
                at = first + timedelta(minutes=number)
                thread = (f"thread {number // THREAD}", "ann" if number % 2 else "ben", number % THREAD)
                copy.write_row(
                    (
                        ids[number],
                        at,
                        at,
                        owner_of(number),
                        "bench",
                        "private",
                        "knowledge",
                        "business_context",
                        "medium",
                    )
                    + ("user", text, "", "{}", "{}", "{}", "{}", "[]", "{}", "all-MiniLM-L6-v2", b"", "active", "")
                    + (("ltm", *thread) if in_threads else ("", "", "", None))
                    + (0.5, 0, "", "", "en", "", "", "automatic", False)
                )
        with cursor.copy(f"COPY memory_passages ({PASSAGE_COLUMNS}) FROM STDIN") as copy:
            for pk, text, (vector, bits) in zip(ids, texts, chain([first_vector], vectors), strict=True):
                numbers = ",".join([f"{number:.5f}" for number in vector.tolist()])
                copy.write_row((pk, 0, len(text), f"[{numbers}]", bits, False))
    loaded = time.perf_counter()
    vector_index.train()
    built = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE memory_records, memory_passages")
    term_statistics.refresh()
    print(f"{size:,} loaded in {loaded - started:.0f} s, vector index built in {built - loaded:.0f} s")
    return texts


def questions(texts: list[str], count: int) -> list[str]:
    dice = random.Random(11)
    return [" ".join(dice.sample(dice.choice(texts).split(), 6)) for _ in range(count + WARM_UP)]


def timed(action: Callable[..., Any], *args: Any, **keywords: Any) -> float:
    started = time.perf_counter()
    action(*args, **keywords)
    return (time.perf_counter() - started) * 1000


def row(name: str, times: list[float], bare: float = 0.0) -> float:
    ordered = sorted(times[WARM_UP:] or times)
    p50, p95 = statistics.median(ordered), ordered[int(len(ordered) * 0.95) - 1]
    print(f"  {name:<52}{p50:>8.1f}{p95:>8.1f}" + (f"{p50 / bare:>8.2f}" if bare else ""))
    return p50


def bare_sql(owner: str, vector: list[float]) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.id FROM memory_passages p JOIN memory_records r ON r.id = p.record_id WHERE r.created_by = %s"
            " AND r.status = 'active' ORDER BY (p.vector <=> %s::vector) + 0 LIMIT 10",
            [owner, str(vector)],
        )
        cursor.fetchall()


# -- through stdio -----------------------------------------------------------------------------------------


def through_stdio(action: Callable[[Any], Awaitable[list[float]]]) -> tuple[float, list[float]]:
    """Return the ms of the first tools/list of a new process, and the times that `action` measures with its client."""
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from mcp import Client  # noqa: PLC0415 - after setup()
    from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - after setup()

    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(scratch.ROOT / "manage.py"), "mcp", "--as", OWNER],
        env=scratch.environment(url),
        cwd=str(scratch.ROOT),
    )

    async def main() -> tuple[float, list[float]]:
        started = time.perf_counter()
        async with Client(stdio_client(server)) as client:
            await client.list_tools()
            first = (time.perf_counter() - started) * 1000
            return first, await action(client)

    return asyncio.run(main())


def recalling(queries: list[str]) -> Callable[[Any], Awaitable[list[float]]]:
    async def action(client: Any) -> list[float]:
        times = []
        for query in queries:
            started = time.perf_counter()
            response = await client.call_tool("memory_recall", {"query": query})
            times.append((time.perf_counter() - started) * 1000)
            if response.is_error or response.structured_content.get("degraded"):
                raise SystemExit(response.content[0].text)
        return times

    return action


def writing(count: int) -> Callable[[Any], Awaitable[list[float]]]:
    async def action(client: Any) -> list[float]:
        dice, times = random.Random(17), []
        for _ in range(count + WARM_UP):
            started = time.perf_counter()
            await client.call_tool("memory_manage", {"command": "remember", "content": f"New: {sentence(dice)}"})
            times.append((time.perf_counter() - started) * 1000)
        return times

    return action


def import_alone() -> None:
    """Import the libraries that every process loads before any code of ours."""
    modules = "django.core.management, django.db.models, psycopg, mcp.server.mcpserver"
    subprocess.run([sys.executable, "-c", f"import gc; gc.disable(); import {modules}"], check=True)


def compare_imports(count: int) -> None:
    """Print the rate of a bulk import as a share of the rate of batched embedding alone."""
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    dice = random.Random(23)
    texts = [f"Import: {sentence(dice)}" for _ in range(2 * count)]
    caller = Caller(email=OWNER, persona="bench", personas=frozenset({"bench"}))
    bare = timed(embedding.embed, texts[:count], waiting=embedding.Waiting.BATCH)
    whole = timed(remember_many, caller, facts=[{"content": text} for text in texts[count:]])
    print(f"  remember_many: {count / whole * 1000:.0f} memories/s, {bare / whole:.2f} of the rate of embedding alone")


def measure_one(size: int, count: int) -> None:
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    for in_threads in (False, True):
        with scratch.database():
            User.objects.create_user(OWNER, None)
            texts = load(size, lambda number: OWNER, in_threads=in_threads)
            queries = questions(texts, count)
            print(f"  {'ms':<52}{'p50':>8}{'p95':>8}{'ratio':>8}")
            embedded = row("bare embedding of the query", [timed(embedding.embed_query, query) for query in queries])
            vectors = [embedding.embed_query(query)[0] for query in queries]
            scanned = row("bare SQL: exact cosine top ten", [timed(bare_sql, OWNER, vector) for vector in vectors])
            first, times = through_stdio(recalling(queries))
            kind = "context" if in_threads else "plain ranking"
            row(f"recall through stdio, {kind}", times, embedded + scanned)
            if not in_threads:
                row("remember through stdio", through_stdio(writing(count))[1])
                compare_imports(2_000)
                imports = row(
                    "importing Django, psycopg and the MCP SDK alone", [timed(import_alone) for _ in range(5)]
                )
                starts = [first, *(through_stdio(recalling([]))[0] for _ in range(4))]
                row("first tools/list of a new process", starts, imports)


# -- growing table sizes -----------------------------------------------------------------------------------


def owner_of(size: int) -> Callable[[int], str]:
    """Return a function from row number to owner: owner 0 has 100 memories, owner 1 half, 98 others the rest."""
    dice = random.Random(5)
    numbers = [0] * 100 + [1] * (size // 2) + [dice.randint(2, 99) for _ in range(size - size // 2 - 100)]
    dice.shuffle(numbers)
    return lambda number: f"owner{numbers[number]}@bench.example"


def measure_many(sizes: list[int], count: int) -> None:
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.database import identity  # noqa: PLC0415 - after setup()
    from foundation.people.caller import Caller, system_caller  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()

    people = {
        f"owner {number}": Caller(email=f"owner{number}@bench.example", persona="bench", personas=frozenset({"bench"}))
        for number in (0, 1)
    }
    base: dict[str, float] = {}
    for size in sizes:
        with scratch.database():
            texts = load(size, owner_of(size))
            queries = questions(texts, count)
            print(f"  {'ms, in process':<52}{'p50':>8}{'p95':>8}{'growth':>8}")
            row("bare embedding of the query", [timed(embedding.embed_query, query) for query in queries])
            for name, caller in {"owner of 100": people["owner 0"], "owner of half": people["owner 1"],
                                 "admin, who sees all": system_caller()}.items():  # fmt: skip
                times, with_policies = [], []
                for query in queries:
                    times.append(timed(recall, caller, RecallMemories(query=query)))
                    with identity.acting_as(caller):
                        with_policies.append(timed(recall, caller, RecallMemories(query=query)))
                p50 = row(f"recall: {name}", times, base.get(name, 0.0))
                base.setdefault(name, p50)
                row("  with row-level security (growth: against without)", with_policies, p50)
            index_recall(people, queries[: min(count, 50)])


def index_recall(people: dict[str, Any], queries: list[str]) -> None:
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.database.queryset_sql import condition  # noqa: PLC0415 - after setup()
    from memories.retrieval.filters import Filters, visible_rows  # noqa: PLC0415 - after setup()
    from memories.retrieval.near_duplicates import nearest_records  # noqa: PLC0415 - after setup()
    from memories.retrieval.ranking import is_small  # noqa: PLC0415 - after setup()

    for name, caller in people.items():
        searched = condition(visible_rows(caller, Filters()))
        small, shares = is_small(searched), []
        for query in queries:
            vectors, _ = embedding.embed([query])
            best = set(list(nearest_records(searched, vectors, exact=True))[:10])
            found = set(list(nearest_records(searched, vectors, exact=small))[:10])
            shares.append(len(best & found) / max(len(best), 1))
        method = "scan" if small else "index"
        count = visible_rows(caller, Filters()).count()
        print(f"  recall@10 of {name} ({count:,}, {method}): {statistics.fmean(shares):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["one", "many"])
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--queries", type=int, default=100)
    options = parser.parse_args()
    scratch.setup()
    if options.what == "one":
        measure_one(options.size, options.queries)
    else:
        measure_many([int(part) for part in options.sizes.split(",")], options.queries)


if __name__ == "__main__":
    main()
