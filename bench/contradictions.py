"""Measure the precision and recall of contradictions on labelled pairs of texts.

    python bench/contradictions.py [--part held] [--show] [TABLE]

The pairs of part "tuned" were read while the rules were written. Those of part "held" were written before and not read,
those of part "later" after the rules, so their figures tell what to expect of other texts. Each pair is read in both
orders. `--show` prints the pairs that are judged wrongly. TABLE has one JSON object a line, with the keys part,
conflict, kind, language, first and second.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import scratch

PARTS = ("tuned", "held", "later")
COLUMNS = ("pairs", "conflicts", "reported", "right", "precision", "recall")


def judge(pairs: Iterable[dict[str, Any]], *, show: bool) -> dict[str, Counter[str]]:
    """Return the counts of each part, and of each kind in it."""
    from memories.texts.contradiction import contradiction  # noqa: PLC0415 - after setup()

    counts: dict[str, Counter[str]] = {}
    for pair in pairs:
        for first, second in ((pair["first"], pair["second"]), (pair["second"], pair["first"])):
            reason = contradiction(first, second)
            for group in (pair["part"], f"  {pair['kind']}", f"  language {pair['language']}"):
                of_group = counts.setdefault(group, Counter())
                of_group["pairs"] += 1
                of_group["conflicts"] += pair["conflict"]
                of_group["reported"] += bool(reason)
                of_group["right"] += bool(reason) and pair["conflict"]
            if show and bool(reason) != pair["conflict"]:
                print(f"{'missed' if pair['conflict'] else reason}: {first} | {second}")
    return counts


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, help="only this part")
    parser.add_argument("--show", action="store_true", help="print the pairs that are judged wrongly")
    table = scratch.ROOT / "tests" / "data" / "contradiction_pairs.jsonl"
    parser.add_argument("table", type=Path, nargs="?", default=table)
    arguments = parser.parse_args()
    scratch.setup()
    pairs = [json.loads(line) for line in arguments.table.read_text(encoding="utf-8").splitlines()]
    print(f"{'':22}" + "".join(f"{name:>10}" for name in COLUMNS))
    for part in [arguments.part] if arguments.part else PARTS:
        counts = judge((pair for pair in pairs if pair["part"] == part), show=arguments.show)
        for group, of in counts.items():
            figures = [of[name] for name in COLUMNS[:4]]
            shares = [_share(of["right"], of["reported"]), _share(of["right"], of["conflicts"])]
            print(f"{group:22}" + "".join(f"{figure:>10}" for figure in [*figures, *shares]))


if __name__ == "__main__":
    main()
