"""Measure how often automatic context attaches the memories that matter to a statement, and how often others.

    python bench/statement_context.py [--half tuning|held-out] [--verbose]

Uses the product's own services. statement_context.json has invented warehouses with traps and with statements to which
no trap matters. A trap is a memory and a statement to which it matters. One person remembers all traps of a half
without listing entities, and a colleague runs the statements. The weights in knowledge/context/call_match.py were
chosen on the half `tuning`, and MIN_MATCH with both halves in view.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import scratch

DATA = Path(__file__).with_suffix(".json")


def fill_catalog(worlds: list[dict[str, Any]]) -> None:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()

    catalog = LocalCatalog()
    for world in worlds:
        database = "fernhill" if world["domain"] == "retail" else world["domain"].split()[0]
        for table, columns in world["tables"].items():
            name = f"{database}.{table}"
            urn = f"urn:li:dataset:(urn:li:dataPlatform:snowflake,{name},PROD)"
            catalog.put(urn, "datasetProperties", {"name": table, "qualifiedName": name, "description": ""}, {})
            fields = [{"fieldPath": column, "nativeDataType": "", "type": {"type": {}}} for column in columns.split()]
            catalog.put(urn, "schemaMetadata", {"schemaName": name, "fields": fields}, {})


def callers() -> tuple[Any, Any]:
    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    persona, _ = Persona.objects.get_or_create(name="bench")
    people = [User.objects.create_user(f"{name}@bench.example", "a long password") for name in ("author", "colleague")]
    for user in people:
        PersonaMembership.objects.create(user=user, persona=persona, is_default=True)
    author, colleague = (build_caller(user, channel="bench") for user in people)
    return author, colleague


def attached(caller: Any, sql: str) -> dict[str, str]:
    """Return the attached texts and the reason for each."""
    from foundation.tools.declaration import Call  # noqa: PLC0415 - after setup()
    from knowledge.context.attached_memories import attach_memories  # noqa: PLC0415 - after setup()

    block = attach_memories(caller, Call("query_sql", {"sql": sql}, {}))
    return {entry["content"]: entry["why"] for entry in block.data["memory_context"]} if block else {}


def measure(half: str, verbose: bool) -> None:
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    worlds = [world for world in json.loads(DATA.read_text()) if world["half"] == half]
    embedding.current(wait_s=300)
    fill_catalog(worlds)
    author, colleague = callers()
    traps = [trap for world in worlds for trap in world["traps"]]
    remember_many(author, facts=[{"content": text} for text, _ in traps])
    results = [(text, sql, attached(colleague, sql)) for text, sql in traps]
    found = sum(text in texts for text, _, texts in results)
    others = sum(len(texts.keys() - {text}) for text, _, texts in results)
    unrelated = [(sql, attached(colleague, sql)) for world in worlds for sql in world["unrelated"]]
    wrong = sum(bool(texts) for _, texts in unrelated)
    print(f"{half}: {found} of {len(traps)} traps attached, with {others / len(traps):.2f} others per statement;")
    print(f"    {wrong} of {len(unrelated)} unrelated statements with anything attached")
    if verbose:
        for text, sql, texts in results:
            if text not in texts:
                print(f"missed: {text}\n    {sql}")
        for sql, texts in unrelated:
            for text, why in texts.items():
                print(f"wrong: {text} ({why})\n    {sql}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--half", choices=["tuning", "held-out"], help="default: both, one after the other")
    parser.add_argument("--verbose", action="store_true", help="print what was missed, and what was attached wrongly")
    options = parser.parse_args()
    scratch.setup()
    for half in [options.half] if options.half else ["tuning", "held-out"]:
        with scratch.database():
            measure(half, options.verbose)


if __name__ == "__main__":
    main()
