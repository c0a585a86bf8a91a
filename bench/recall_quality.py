"""Measure how well recall finds the relevant memories in conversations or documents.

    python bench/recall_quality.py DIR [--together]

Uses the product's own services and search. DIR holds records.jsonl and qa.jsonl. Conversations: records have id, scope,
author, ts, seq, text and image_caption; questions have category (1 to 4 are used; 5 is adversarial and has no answer in
the data). Each question searches its own conversation or, with --together, all of them. Documents: records have id and
text; questions have kind. Documents are searched with the weights of recall and, in the same run, with `.6 cosine
+ .6 coverage`.

Recall@k = |relevant in the top k| / |relevant|, averaged over the questions. The licence of the conversations is
non-commercial, so they are read from DIR and never copied into this repository.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import scratch

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
METRICS = ("R@5", "R@10", "nDCG@10", "MRR")
Results = dict[str, list[dict[str, float]]]


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


def store_conversations(records: list[dict[str, Any]], caller: Any) -> dict[str, str]:
    """Store the turns. Return the data set's turn id for each memory id."""
    from memories.conversation.turns import Turn, store_turns  # noqa: PLC0415 - after setup()

    by_scope = defaultdict(list)
    for record in records:
        by_scope[record["scope"]].append(record)
    source_ids: dict[str, str] = {}
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
        memories = store_turns(caller, conversation_id=scope, turns=conversation, tier="ltm")
        source_ids.update({memory.pk.hex: turn["id"] for memory, turn in zip(memories, turns, strict=True)})
    return source_ids


def store_documents(records: list[dict[str, Any]], caller: Any) -> dict[str, str]:
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    facts = [{"content": record["text"], "visibility": "private"} for record in records]
    stored = remember_many(caller, facts=facts)
    return {memory.pk.hex: record["id"] for (memory, _), record in zip(stored, records, strict=True)}


def ask_questions(
    questions: Iterable[dict[str, Any]], source_ids: dict[str, str], caller: Any, together: bool
) -> Results:
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval.filters import Filters  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()

    results: Results = defaultdict(list)
    stages: Counter[str] = Counter()
    for question in questions:
        scope = "" if together else question.get("scope", "")
        result = recall(
            caller, RecallMemories(query=question["text"], limit=50), filters=Filters(conversation_id=scope)
        )
        stages[result.ranking] += 1
        ranked = [source_ids[hit.record.pk.hex] for hit in result.hits]
        category = question.get("category")
        kind = f"{category} {CATEGORIES[category]}" if category else question["kind"]
        results[kind].append(scores(set(question["relevant"]), ranked))
    print(", ".join(f"{count} questions ranked by {stage}" for stage, count in stages.items()))
    return results


def table(results: Results) -> None:
    print(f"{'kind':<16}{'questions':>10}" + "".join(f"{metric:>9}" for metric in METRICS))
    everything = [row for rows in results.values() for row in rows]
    for name, rows in [*sorted(results.items()), ("all", everything)]:
        means = (statistics.fmean(row[metric] for row in rows) for metric in METRICS)
        print(f"{name:<16}{len(rows):>10}" + "".join(f"{mean:>9.3f}" for mean in means))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument(
        "--together", action="store_true", help="search all conversations instead of the question's own"
    )
    options = parser.parse_args()
    scratch.setup()

    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import ranking, term_statistics  # noqa: PLC0415 - after setup()

    caller = Caller(email="bench@example.org", persona="analyst", personas=frozenset({"analyst"}))
    questions = [q for q in lines(options.dir / "qa.jsonl") if q.get("category", 1) in CATEGORIES and q["relevant"]]
    records = lines(options.dir / "records.jsonl")
    is_conversation = "scope" in records[0]
    with scratch.database():
        source_ids = (store_conversations if is_conversation else store_documents)(records, caller)
        term_statistics.refresh()
        print(f"{len(source_ids)} memories, {len(questions)} questions")
        table(ask_questions(questions, source_ids, caller, options.together))
        if not is_conversation:
            ranking.SEMANTIC_WEIGHT = ranking.LEXICAL_WEIGHT = 0.6
            print("The same documents with .6 cosine + .6 coverage:")
            table(ask_questions(questions, source_ids, caller, options.together))


if __name__ == "__main__":
    main()
