"""How often the entity that a claim is about is offered first, or among three, when the claim names none.

    .venv/bin/python bench/filing.py [--details]

The claims in bench/filing.json were written and labelled by hand, against the catalog of the demo, before anything was
tuned. Twenty of them are held out: weights were set with the others alone. A claim with `recent` is made after calls
about these entities. A claim about nothing in the catalog is right if it gets no candidate.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import scratch

CLAIMS = json.loads((Path(__file__).parent / "filing.json").read_text())
OFFERED = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--details", action="store_true", help="print the claims whose entity is not first")
    parser.add_argument("--with-memories", action="store_true", help="load the memories of the demo, too")
    parser.add_argument("--all", action="store_true", help="with --details, also those held out")
    arguments = parser.parse_args()
    scratch.setup()
    with scratch.database():
        caller = _load(with_memories=arguments.with_memories)
        for name, held_out in (("known", False), ("held out", True)):
            claims = [claim for claim in CLAIMS if claim.get("held_out", False) == held_out]
            show = arguments.details and (arguments.all or not held_out)
            print(f"{name:10}", _measure(caller, claims, details=show))


def _load(*, with_memories: bool) -> Any:
    from memories.identity.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project import demo  # noqa: PLC0415 - after setup()

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


def _offered(caller: Any, claim: dict[str, Any], times: list[float]) -> list[Any]:
    from django.core.cache import cache  # noqa: PLC0415 - after setup()

    from knowledge.catalog.name_resolution import urn_of  # noqa: PLC0415 - after setup()
    from knowledge.filing import recent_entities  # noqa: PLC0415 - after setup()
    from knowledge.filing.likely_entities import likely_entities  # noqa: PLC0415 - after setup()
    from memories import services  # noqa: PLC0415 - after setup()
    from memories.operations import Remember  # noqa: PLC0415 - after setup()

    cache.clear()
    recent_entities.note(caller, [urn_of(name) for name in claim.get("recent", ())])
    record = services.remember(Remember.read({"content": claim["text"]}), caller=caller).record
    started = time.perf_counter()
    found, _ = likely_entities(caller, [record])
    times.append(time.perf_counter() - started)
    return found[record.pk][:OFFERED]


if __name__ == "__main__":
    main()
