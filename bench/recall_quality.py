"""How well recall finds what was said: LoCoMo conversations through the product's own service and search.

    python bench/recall_quality.py DIR        DIR holds records.jsonl and qa.jsonl

records.jsonl: id, scope, author, ts, seq, text, image_caption. qa.jsonl: id, scope, text, category, relevant.
Every turn becomes a memory of one person; a question is asked inside its conversation. Categories 1 to 4
(5 is adversarial: its answer is not there). Recall@k = |relevant in the top k| / |relevant|, the mean over
questions. The data set's licence is non-commercial: it is pointed at, never copied here.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import scratch

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
METRICS = ("R@5", "R@10", "nDCG@10", "MRR")


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines() if line.strip()]


def scores(relevant: set[str], ranked: list[str]) -> dict[str, float]:
    gains = [1 if document in relevant else 0 for document in ranked[:10]]
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(len(relevant), 10)))
    first = next((rank for rank, document in enumerate(ranked, 1) if document in relevant), None)
    return {
        "R@5": sum(gains[:5]) / len(relevant),
        "R@10": sum(gains) / len(relevant),
        "nDCG@10": sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains)) / ideal,
        "MRR": 1 / first if first else 0.0,
    }


def store(records: list[dict[str, Any]], caller: Any) -> dict[str, str]:
    """Writes the turns; returns the data set's id of each memory."""
    from memories.conversation.turns import Turn, store_turns  # noqa: PLC0415
    from memories.retrieval import lexicon  # noqa: PLC0415 - after setup()

    by_scope = defaultdict(list)
    for record in records:
        by_scope[record["scope"]].append(record)
    names: dict[str, str] = {}
    for scope, turns in by_scope.items():
        conversation = [
            Turn(
                author=turn["author"],
                text=turn["text"] + (f" [shared image: {turn['image_caption']}]" if turn["image_caption"] else ""),
                at=datetime.fromisoformat(turn["ts"]),
                position=turn["seq"],
            )
            for turn in turns
        ]
        memories = store_turns(caller=caller, conversation_id=scope, turns=conversation, tier="ltm")
        names.update({memory.pk.hex: turn["id"] for memory, turn in zip(memories, turns, strict=True)})
    lexicon.refresh()
    return names


def ask(questions: Iterable[dict[str, Any]], names: dict[str, str], caller: Any) -> dict[int, list[dict[str, float]]]:
    from memories.retrieval.search import Filters, recall  # noqa: PLC0415 - after setup()

    results: dict[int, list[dict[str, float]]] = defaultdict(list)
    for question in questions:
        answer = recall(
            caller=caller,
            query=question["text"],
            filters=Filters(conversation_id=question["scope"]),
            limit=50,
        )
        ranked = [names[hit.record.pk.hex] for hit in answer.hits]
        results[question["category"]].append(scores(set(question["relevant"]), ranked))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    folder = parser.parse_args().dir
    scratch.setup()
    from memories.access import Caller  # noqa: PLC0415 - after setup()

    caller = Caller(email="bench@example.org", persona="analyst", personas=frozenset({"analyst"}))
    questions = [q for q in lines(folder / "qa.jsonl") if q["category"] in CATEGORIES and q["relevant"]]
    with scratch.database():
        names = store(lines(folder / "records.jsonl"), caller)
        results = ask(questions, names, caller)
    print(f"{len(names)} turns, {len(questions)} questions, top 50 of one conversation each")
    print(f"{'category':<16}{'questions':>10}" + "".join(f"{metric:>9}" for metric in METRICS))
    everything = [row for rows in results.values() for row in rows]
    for name, rows in [*((f"{n} {CATEGORIES[n]}", results[n]) for n in sorted(results)), ("all", everything)]:
        means = (statistics.fmean(row[metric] for row in rows) for metric in METRICS)
        print(f"{name:<16}{len(rows):>10}" + "".join(f"{mean:>9.3f}" for mean in means))


if __name__ == "__main__":
    main()
