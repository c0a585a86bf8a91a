"""Measure the graph page with a large graph.

    python bench/graph_page.py [--entities 3000] [--relations 6000] [--rounds 7]

Imports a graph of one person whose entities have mostly relations with others nearby, some with a few hubs, and 500
with one hub. Requests the overview (with an empty cache and with a full one), an opened cluster, the hub, one type, and
a search, through the complete Django middleware. Prints for each the number of queries, the median and the slowest
server time in ms, the median CPU time of Django alone (on a busy machine, it waits in between), the nodes drawn, and
the size of the response in kB.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from collections.abc import Iterator
from typing import Any

import scratch
from django.core.management import call_command

TYPES = ("Table", "Report", "Metric", "Person", "System")
MARK = 'class="node '  # once for each node
EMAIL = "graph@bench.example"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entities", type=int, default=3_000)
    parser.add_argument("--relations", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    scratch.setup()
    call_command("collectstatic", "--no-input", verbosity=0)
    with scratch.database():
        person = fill(options.entities, options.relations)
        report(person, options.rounds)


def lines(entities: int, relations: int) -> Iterator[str]:
    dice = random.Random(5)
    for number in range(entities):
        kind = TYPES[number % len(TYPES)]
        yield json.dumps(
            {"type": "entity", "name": f"{kind} {number}", "entityType": kind, "observations": [f"Note on {number}."]}
        )
    pairs = {(0, number) for number in range(1, min(500, entities))}
    while len(pairs) < relations:
        start = dice.randrange(entities)
        near, hub = start // 40 * 40 + dice.randrange(40), int(entities * dice.random() ** 4)
        pairs.add((start, min(near if dice.random() < 0.8 else hub, entities - 1)))
    for start, end in sorted(pairs):
        ends = {"from": f"{TYPES[start % 5]} {start}", "to": f"{TYPES[end % 5]} {end}"}
        yield json.dumps({"type": "relation", **ends, "relationType": "uses"})


def fill(entities: int, relations: int) -> Any:
    from django.db import connection  # noqa: PLC0415 - after setup()
    from django.test import override_settings  # noqa: PLC0415 - after setup()

    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from knowledge.graph import jsonl  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    person = User.objects.create_user(EMAIL, "x")
    with override_settings(EMBEDDING_PROVIDER="none"):
        jsonl.import_lines(build_caller(person, channel="bench"), lines(entities, relations))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return person


def report(person: Any, rounds: int) -> None:
    from django.core.cache import cache  # noqa: PLC0415 - after setup()
    from django.db import connection  # noqa: PLC0415 - after setup()
    from django.test import Client  # noqa: PLC0415 - after setup()
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415 - after setup()

    client = Client(SERVER_NAME="localhost")
    client.force_login(person)
    start = client.get("/graph/").content.decode()
    opened = re.search(r'href="(/graph/\?[^"]*cluster=[^"]*)"', start)
    pages = {
        "overview, empty cache": "/graph/",
        "overview": "/graph/",
        "opened cluster": opened[1].replace("&amp;", "&") if opened else "/graph/",
        "hub": "/graph/?node=1",
        "one type": "/graph/?type=Table",
        "search": "/graph/?q=Table 100",
    }
    print(f"{'page':<24}{'queries':>8}{'p50':>8}{'max':>8}{'cpu':>8}{'nodes':>7}{'kB':>7}")
    for name, address in pages.items():
        times, work = [], []
        for _ in range(rounds):
            if "empty" in name:
                cache.clear()
            started, worked = time.perf_counter(), time.process_time()
            response = client.get(address)
            times.append((time.perf_counter() - started) * 1000)
            work.append((time.process_time() - worked) * 1000)
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        html = response.content.decode()
        print(
            f"{name:<24}{len(queries):>8}{statistics.median(times):>8.0f}{max(times):>8.0f}"
            f"{statistics.median(work):>8.0f}"
            f"{html.count(MARK):>7}{len(html) / 1000:>7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
