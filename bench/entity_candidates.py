"""How often the entity that a claim is about is offered first, or among three, when the claim names none.

    .venv/bin/python bench/entity_candidates.py [--details]

The claims in bench/entity_candidates.json were written and labelled by hand, against the catalog of the demo, before
anything was tuned. Twenty of them are held out: weights were set with the others alone. A claim with `recent` is made
after calls about these entities. A claim about nothing in the catalog is right if it gets no candidate.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import scratch

CLAIMS = json.loads((Path(__file__).parent / "entity_candidates.json").read_text())
OFFERED = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="print the claims whose entity is not first")
    parser.add_argument("--with-memories", action="store_true", help="load the memories of the demo, too")
    parser.add_argument("--all", action="store_true", help="with --details, also those held out")
    parser.add_argument("--rows", type=int, default=0, help="instead, time the list of unsettled memories among these")
    arguments = parser.parse_args()
    scratch.setup()
    with scratch.database():
        caller = _load(with_memories=arguments.with_memories)
        if arguments.rows:
            print(_time_lists(caller, arguments.rows))
            return
        for name, held_out in (("known", False), ("held out", True)):
            claims = [claim for claim in CLAIMS if claim.get("held_out", False) == held_out]
            show = arguments.details and (arguments.all or not held_out)
            print(f"{name:10}", _measure(caller, claims, details=show))


def _load(*, with_memories: bool) -> Any:
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    people = demo.make_people()
    demo.load_demo_catalog()
    if with_memories:
        list(demo.make_memories(people))
    return build_caller(people["maya"], channel="bench")


def _measure(caller: Any, claims: list[dict[str, Any]], *, details: bool) -> str:
    first = among = column = columns = quiet = nothing = 0
    times: list[float] = []
    for claim in claims:
        offered = _offered(caller, claim, times)
        names = [candidate.urn if "glossaryTerm" in candidate.urn else candidate.name for candidate in offered]
        if not claim["about"]:
            nothing, quiet = nothing + 1, quiet + (not offered)
        else:
            first += bool(names) and names[0] in claim["about"]
            among += any(name in claim["about"] for name in names)
        if claim.get("column"):
            columns += 1
            column += any(c.name in claim["about"] and c.column == claim["column"] for c in offered)
        if details and names[:1] != claim["about"][:1]:
            print(f"  {claim['text']}\n    wanted {claim['about']} {claim.get('column', '')}")
            for candidate in offered:
                print(f"    {candidate.score:5} {candidate.name} {candidate.column} | {candidate.why}")
    stated = len(claims) - nothing
    median = sorted(times)[len(times) // 2] * 1000
    return (
        f"first {first}/{stated}, among three {among}/{stated}, with its column {column}/{columns}, "
        f"none offered where none is right {quiet}/{nothing}, median {median:.0f} ms"
    )


ROWS = """
    INSERT INTO memory_records (id, created_at, updated_at, created_by, persona, visibility, dimension, category,
        confidence, source, content, summary, language, tags, entity_urns, related_columns, detected_urns,
        dismissed_urns, unsettled, metadata, embedding_model, status, stale_reason, tier, conversation_id, role, author,
        importance, access_count, enrichment_status)
    SELECT gen_random_uuid(), at, at,
        CASE WHEN n %% 100 = 0 THEN %(email)s ELSE 'person' || n %% 500 || '@x.example' END, %(persona)s, 'persona',
        'knowledge', 'business_context', 'medium', 'user', 'Fact number ' || n || ' of a basket.',
        '', '', '{}', '{}', '[]', '{}', '{}', n %% 3 = 0, '{}', '', 'active', '', '', '', '', '', 0.5, 0, ''
    FROM generate_series(1, %(rows)s) AS n, LATERAL (SELECT now() - n * interval '1 minute' AS at) AS moment"""


def _time_lists(caller: Any, count: int) -> str:
    """Time the counts and the first page of My Knowledge, with and without the filter; a third is unsettled."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memory_project.portal.memory_list import Browse  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(ROWS, {"email": caller.email, "persona": caller.persona, "rows": count})
        cursor.execute("ANALYZE memory_records")
        cursor.execute("SELECT pg_relation_size('memory_unsettled')")
        size = cursor.fetchone()[0]
    found = []
    for name, params in (("all", {}), ("unsettled", {"about": "unsettled"})):
        times = []
        for _ in range(5):
            started = time.perf_counter()
            page = Browse.of(caller, params).result()
            times.append((time.perf_counter() - started) * 1000)
        found.append(f"{name}: {page.total} memories, {min(times):.0f} ms")
    return f"{'; '.join(found)}; index {size // 1024} kB"


def _offered(caller: Any, claim: dict[str, Any], times: list[float]) -> list[Any]:
    from django.core.cache import cache  # noqa: PLC0415 - after setup()

    from knowledge.catalog.name_resolution import urn_of  # noqa: PLC0415 - after setup()
    from knowledge.entities import recent_entities  # noqa: PLC0415 - after setup()
    from knowledge.entities.likely_entities import likely_entities  # noqa: PLC0415 - after setup()
    from memories import services  # noqa: PLC0415 - after setup()
    from memories.operations import Remember  # noqa: PLC0415 - after setup()

    cache.clear()
    recent_entities.remember_recent(caller, [urn_of(name) for name in claim.get("recent", ())])
    record = services.remember(caller, Remember.read({"content": claim["text"]})).record
    started = time.perf_counter()
    found, _ = likely_entities(caller, [record])
    times.append(time.perf_counter() - started)
    return found[record.pk][:OFFERED]


if __name__ == "__main__":
    main()
