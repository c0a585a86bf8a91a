"""Measure what becomes of pairs of questions in the semantic cache, and in a comparison of vectors alone.

    python bench/statement_pairs.py [TABLE]

For each pair, the first text is stored as a question and the second is looked up, with the configured embedding model.
Prints for each kind of pair how often the outcome is a hit, near or a miss, how the comparison of the texts judges the
pair, and how many pairs would be hits by their cosine alone. TABLE has the columns kind, first and second, separated by
tabs; by default it is the table of the tests.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import scratch

VECTORS_ALONE = 0.9  # threshold of the cosine, if the texts were not compared
USER = "bench@example.org"
COLUMNS = ("pairs", "hit", "near", "miss", "same", "reworded", "different", "cosine")


def outcomes(pairs: Sequence[tuple[str, str, str]]) -> dict[str, Counter[str]]:
    """Return by kind how many pairs have each outcome."""
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.conversation.cache import check_cache, store_cache  # noqa: PLC0415 - after setup()
    from memories.conversation.models import CachedAnswer  # noqa: PLC0415 - after setup()
    from memories.conversation.operations import CheckCache, StoreCache  # noqa: PLC0415 - after setup()
    from memories.texts.comparison import compare  # noqa: PLC0415 - after setup()

    caller = Caller(email=USER, persona="", personas=frozenset())
    counts: dict[str, Counter[str]] = {}
    for kind, first, second in pairs:
        CachedAnswer.objects.all().delete()
        store_cache(caller, StoreCache(user_id=USER, query=first, response="-"))
        lookup = check_cache(caller, CheckCache(user_id=USER, query=second))
        vectors = embedding.embed([first, second])[0]
        of_kind = counts.setdefault(kind, Counter())
        of_kind["pairs"] += 1
        of_kind["hit" if lookup.hit else "near" if lookup.near else "miss"] += 1
        of_kind[{"near": "reworded"}.get(verdict := compare(first, second).verdict.value, verdict)] += 1
        cosine = float(vectors[0] @ vectors[1])
        of_kind["cosine"] += cosine >= VECTORS_ALONE
        if not lookup.hit and not lookup.near:
            print(f"miss at {cosine:.2f}: {first} | {second}")
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    table = scratch.ROOT / "tests" / "data" / "statement_pairs.tsv"
    parser.add_argument("table", type=Path, nargs="?", default=table)
    arguments = parser.parse_args()
    with arguments.table.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        pairs = [(row["kind"], row["first"], row["second"]) for row in rows]
    scratch.setup()
    with scratch.database():
        counts = outcomes(pairs)
    print(f"{'':24}" + "".join(f"{name:>10}" for name in COLUMNS))
    for kind, of_kind in counts.items():
        print(f"{kind:24}" + "".join(f"{of_kind[name]:>10}" for name in COLUMNS))


if __name__ == "__main__":
    main()
