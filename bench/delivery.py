"""Measure whether the right memory reaches an agent that is about to fall into a trap, without a language model.

    python bench/delivery.py [--half seen|unseen] [--variant NAME] [--others 10000] [--traps FILE] [--verbose]
        [--answers]

delivery.json has 120 cases for the demo warehouse: 98 traps, each with the statement of an agent that does not know
the trap, the question that it answers and the memory that it needs, and 22 controls to which no memory matters. One
person remembers the traps of a half, and a colleague runs the statements and asks the questions. A trap is delivered if
the memory is attached to the statement or among the first three that recall returns for the question. Of a
contradiction both memories must arrive. A stale memory is delivered by its correction, or if the agent is told that a
stale memory is left out. Noise is the number of controls with anything attached, or with word of a stale memory.

The variants differ in what the author wrote: with or without names of tables and columns, with or without stated
entities, and about an entity two steps upstream of the one in the statement. Then others are added: memories about
other tables of the same company (delivery_others.py). Retrieval was improved with the half `seen` in view. The cases of
the half `unseen` are never printed, only their totals. FILE has other cases in the same form. --answers also asks a
language model (delivery_answers.py).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import scratch

DATA = Path(__file__).with_suffix(".json")
KINDS = (
    "definition", "exclusion", "unit", "time zone", "moved table", "test data", "wrong join", "stale", "contradiction",
    "control",
)  # fmt: skip
FIRST = 3  # number of recalled memories that an agent is assumed to read
PATIENCE_MS = 10_000  # no deadline counts; the times are printed
REQUIRED = ("question", "sql")
OF_TRAPS = ("about", "memory", "bare")
PAIRED = {"other": "bare_other", "old": "bare_old"}


@dataclass(frozen=True)
class Trap:
    """One case. `bare` and `bare_…` are the same texts without names of tables and columns."""

    kind: str
    question: str
    sql: str  # as an agent would write it that doesn't know the memory
    half: str = ""
    about: Sequence[str] = ()  # tables, without the database
    memory: str = ""
    bare: str = ""
    other: str = ""  # what somebody else says, of a contradiction
    bare_other: str = ""
    old: str = ""  # the text that `memory` corrects, of a stale memory
    bare_old: str = ""
    stale: str = ""  # why `memory` is stale, if nobody has corrected it
    right_sql: str = ""  # as an agent would write it that knows the memory, for DuckDB; then `sql` is for DuckDB too

    @property
    def is_control(self) -> bool:
        return self.kind == "control"


@dataclass(frozen=True)
class Variant:
    is_bare: bool = False  # the texts name no tables and columns
    is_stated: bool = False  # the entities are stated
    is_far: bool = False  # the memory is about the entity two steps upstream, and names that one


VARIANTS = {
    "names, stated": Variant(is_stated=True),
    "names": Variant(),
    "no names, stated": Variant(is_bare=True, is_stated=True),
    "two steps upstream": Variant(is_stated=True, is_far=True),
    "no names": Variant(is_bare=True),
}
WITH_OTHERS = ("names, stated", "names", "no names, stated")


@dataclass(frozen=True)
class Outcome:
    trap: Trap
    is_attached: bool
    is_recalled: bool
    unneeded: int  # attached memories that are not needed
    characters: int  # of the attached block
    ms: float
    reasons: dict[str, str] = field(default_factory=dict)  # of each attached text

    @property
    def is_delivered(self) -> bool:
        return self.is_attached or self.is_recalled


def load(file: Path = DATA) -> list[Trap]:
    """Read cases. Raises ValueError, naming the case and the field, if one is not well-formed."""
    names = {part.name for part in fields(Trap)}
    traps = []
    for number, row in enumerate(json.loads(file.read_text(encoding="utf-8"))):
        if unknown := row.keys() - names:
            raise ValueError(
                f"case {number}: unknown field {sorted(unknown)[0]!r}; allowed: {', '.join(sorted(names))}"
            )
        if row.get("kind") not in KINDS:
            raise ValueError(f"case {number}: `kind` is {row.get('kind')!r}; allowed: {', '.join(KINDS)}")
        needed = REQUIRED if row["kind"] == "control" else (*REQUIRED, *OF_TRAPS)
        needed = (*needed, *(bare for name, bare in PAIRED.items() if row.get(name)))
        if row["kind"] == "contradiction":
            needed = (*needed, "other")
        if row["kind"] == "stale" and not row.get("stale"):
            needed = (*needed, "old")
        if missing := [name for name in needed if not row.get(name)]:
            raise ValueError(f"case {number}: `{missing[0]}` is missing")
        traps.append(Trap(**row))
    return traps


def urn_of(table: str) -> str:
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    return demo.dataset(table)


def upstream_of(table: str) -> str:
    return f"landing.{table.replace('.', '_')}_feed"


def fill_catalog(traps: Sequence[Trap]) -> None:
    """Load the demo's catalog, and for each table of a trap two steps of lineage above it."""
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    demo.load_demo_catalog()
    catalog = LocalCatalog()
    for table in sorted({table for trap in traps for table in trap.about}):
        between, source = f"staging.{table.replace('.', '_')}", upstream_of(table)
        aspects = catalog.read([urn_of(table)], ["schemaMetadata", "upstreamLineage"]).get(urn_of(table), {})
        values: dict[str, Any] = {name: aspect.value or {} for name, aspect in aspects.items()}
        for name in (between, source):
            properties = {"name": name.rpartition(".")[2], "qualifiedName": f"fernhill.{name}", "description": ""}
            catalog.put(urn_of(name), "datasetProperties", properties, {})
            schema = {**values.get("schemaMetadata", {}), "schemaName": f"fernhill.{name}"}
            catalog.put(urn_of(name), "schemaMetadata", schema, {})
        above = values.get("upstreamLineage", {}).get("upstreams", [])
        lineage = {
            urn_of(table): [*above, {"dataset": urn_of(between)}],
            urn_of(between): [{"dataset": urn_of(source)}],
        }
        for urn, upstreams in lineage.items():
            catalog.put(urn, "upstreamLineage", {"upstreams": upstreams}, {})


def callers() -> tuple[Any, Any]:
    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    persona, _ = Persona.objects.get_or_create(name="sales-analytics")
    people = [User.objects.create_user(f"{name}@bench.example", "a long password") for name in ("author", "colleague")]
    for user in people:
        PersonaMembership.objects.create(user=user, persona=persona, is_default=True)
    author, colleague = (build_caller(user, channel="bench") for user in people)
    return author, colleague


def worded(trap: Trap, variant: Variant, name: str) -> str:
    """Return the text of a field of a trap in the words of a variant."""
    if variant.is_bare:
        return str(getattr(trap, "bare" if name == "memory" else f"bare_{name}"))
    text = str(getattr(trap, name))
    for table in trap.about if variant.is_far else ():
        schema, _, tail = table.rpartition(".")
        # A table that is called by an ordinary word is only named with its schema.
        names = rf"\b(?:fernhill\.)?{schema}\.{tail}\b" + (rf"|(?<![.\w]){tail}\b" if "_" in tail else "")
        text = re.sub(names, upstream_of(table), text)
    return text


def store(author: Any, traps: Sequence[Trap], variant: Variant) -> None:
    """Remember the texts of the traps as their author wrote them, with corrections and stale memories."""
    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from memories import services  # noqa: PLC0415 - after setup()
    from memories.operations import Supersede  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    facts: list[dict[str, Any]] = []
    later: list[tuple[Trap, int, list[str]]] = []
    for trap in traps:
        if trap.is_control:
            continue
        tables = [upstream_of(table) for table in trap.about] if variant.is_far else trap.about
        urns = [urn_of(table) for table in tables] if variant.is_stated else []
        later.append((trap, len(facts), urns))
        first = worded(trap, variant, "old" if trap.old else "memory")
        facts += [{"content": text, "entity_urns": urns} for text in (first, worded(trap, variant, "other")) if text]
    records = [record for record, _ in remember_many(author, facts=facts)]
    for trap, position, urns in later:
        record_id = records[position].pk
        if trap.old:
            correction = {"content": worded(trap, variant, "memory"), "entity_urns": urns, "reason": "looked again"}
            services.supersede(author, Supersede.read({"record_id": record_id, **correction}))
        if trap.stale:
            services.mark_stale(system_caller(), record_id=record_id, reason=trap.stale)
    term_statistics.refresh()


def remove_memories_of(author: Any) -> None:
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    MemoryRecord.objects.filter(created_by=author.email, supersedes__isnull=False).delete()
    MemoryRecord.objects.filter(created_by=author.email).delete()


def outcome_of(caller: Any, trap: Trap, variant: Variant) -> Outcome:
    """Run the statement, and ask the question, and see which memories come."""
    from foundation.tools.declaration import Call  # noqa: PLC0415 - after setup()
    from knowledge.context.attached_memories import attach_memories  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()

    before = time.perf_counter()
    block = attach_memories(caller, Call("query_sql", {"sql": trap.sql}, {}))
    ms = 1000 * (time.perf_counter() - before)
    data = dict(block.data) if block else {}
    reasons = {entry["content"]: entry["why"] for entry in data.get("memory_context", ())}
    characters = len(json.dumps(data, ensure_ascii=False)) if data else 0
    stale = int(data.get("not_shown", {}).get("stale", 0))
    if trap.is_control:
        return Outcome(trap, False, False, len(reasons) + stale, characters, ms, reasons)
    found = recall(caller, RecallMemories(query=trap.question, limit=FIRST))
    needed = {worded(trap, variant, name) for name in ("memory", "other")} - {""}
    if trap.stale:
        is_attached = stale > 0
        is_recalled = bool(found.left_out.get("stale"))
    else:
        shown = {text.removesuffix("…") for text in reasons}
        is_attached = all(any(text.startswith(start) for start in shown) for text in needed)
        is_recalled = needed <= {hit.content for hit in found.hits}
    unneeded = len(reasons) - (len(needed) if is_attached and not trap.stale else 0)
    return Outcome(trap, is_attached, is_recalled, max(unneeded, 0), characters, ms, reasons)


def measure(author: Any, colleague: Any, traps: Sequence[Trap], variant: Variant) -> list[Outcome]:
    store(author, traps, variant)
    outcomes = [outcome_of(colleague, trap, variant) for trap in traps]
    remove_memories_of(author)
    return outcomes


def summary(outcomes: Sequence[Outcome]) -> str:
    traps = [outcome for outcome in outcomes if not outcome.trap.is_control]
    controls = [outcome for outcome in outcomes if outcome.trap.is_control]
    times = sorted(outcome.ms for outcome in outcomes)
    cells = [
        share(outcome.is_attached for outcome in traps),
        share(outcome.is_recalled for outcome in traps),
        share(outcome.is_delivered for outcome in traps),
        f"{sum(bool(outcome.unneeded) for outcome in controls)} of {len(controls)}",
        f"{statistics.mean(outcome.unneeded for outcome in traps):.2f}",
        f"{statistics.mean(outcome.characters for outcome in traps):.0f}",
        f"{statistics.median(times):.0f}",
        f"{times[int(0.95 * len(times))]:.0f}",
    ]
    return " | ".join(cells)


def share(flags: Any) -> str:
    values = list(flags)
    return f"{sum(values) / len(values):.3f}".removeprefix("0") if values else "-"


def print_kinds(results: dict[str, list[Outcome]]) -> None:
    print(f"\n| delivered, by kind | traps | {' | '.join(results)} |")
    for kind in KINDS[:-1]:
        rows = [[outcome for outcome in outcomes if outcome.trap.kind == kind] for outcomes in results.values()]
        if rows and rows[0]:
            cells = [share(outcome.is_delivered for outcome in row) for row in rows]
            print(f"| {kind} | {len(rows[0])} | {' | '.join(cells)} |")


def print_failures(title: str, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        trap = outcome.trap
        if (
            trap.half == "unseen"
            or (outcome.is_attached and not trap.is_control)
            or not (outcome.reasons or not trap.is_control)
        ):
            continue
        way = "recalled only" if outcome.is_recalled else "disturbed" if trap.is_control else "MISSED"
        print(f"  [{title}] {way}: {trap.kind}: {trap.memory}\n      {trap.question} {trap.sql}")
        for text, why in outcome.reasons.items():
            print(f"        came: {text} ({why})")


def variants_of(with_others: bool, chosen: Sequence[str] | None) -> dict[str, Variant]:
    names = WITH_OTHERS if with_others else tuple(VARIANTS)
    return {name: VARIANTS[name] for name in names if not chosen or name in chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=["seen", "unseen"], help="default: both, one after the other")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="default: all; may be repeated")
    parser.add_argument("--others", type=int, default=10_000, help="number of other memories in the last variants")
    parser.add_argument("--traps", type=Path, default=DATA, help="other cases in the same form")
    parser.add_argument("--verbose", action="store_true", help="print which cases of the half `seen` fail")
    parser.add_argument("--answers", action="store_true", help="also let the model of ENRICHMENT_URL answer")
    options = parser.parse_args()
    scratch.setup()
    import delivery_answers  # noqa: PLC0415 - after setup()
    import delivery_others  # noqa: PLC0415 - after setup()
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from foundation import embedding  # noqa: PLC0415 - after setup()

    settings.MEMORY_CONTEXT_MS = PATIENCE_MS
    traps = [trap for trap in load(options.traps) if not options.half or trap.half == options.half]
    halves = list(dict.fromkeys(trap.half for trap in traps))
    print(f"seed {delivery_others.SEED}, {len(traps)} cases, {options.others:,} other memories")
    started = time.monotonic()
    with scratch.database(), delivery_answers.warehouse() as file:
        delivery_answers.check(traps, file)
        embedding.current(wait_s=300)
        fill_catalog(traps)
        author, colleague = callers()
        results: dict[str, list[Outcome]] = {}
        print("| half | variant | attached | recalled | delivered | noise | unneeded | characters | p50 ms | p95 ms |")
        for count in dict.fromkeys([0, options.others]):
            if count:
                delivery_others.fill(count)
            for name, variant in variants_of(bool(count), options.variant).items():
                title = f"{name}, {count:,} others" if count else name
                for half in halves:
                    outcomes = measure(author, colleague, [trap for trap in traps if trap.half == half], variant)
                    print(f"| {half} | {title} | {summary(outcomes)} |", flush=True)
                    results[title] = [*results.get(title, []), *outcomes]
                    if options.verbose:
                        print_failures(title, outcomes)
        print_kinds(results)
        if options.answers:
            store(author, traps, VARIANTS["names"])
            delivery_answers.compare(colleague, traps)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
