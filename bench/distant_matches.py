"""Measure what recall answers to questions in other words than their memory's, and to questions about something else.

    python bench/distant_matches.py CONVERSATIONS

Stores the facts of tests/data/distant_questions.tsv, each with a question that shares hardly a word with it. Asks all
questions through `memory_recall`, as well as 300 questions of the conversations (see recall_quality.py), which nothing
answers. RECALL_DISTANT_SCORE was chosen with the first half of the questions in view, every second one of the file.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path
from typing import Any

import scratch
from recall_quality import lines, store_documents

PAIRS = scratch.ROOT / "tests/data/distant_questions.tsv"
OFF_TOPIC = 300


def answer(question: str, number: str, numbers: dict[str, str], caller: Any) -> str:
    """Return what the first memory of an answer is: right or wrong, and whether it is marked as distant."""
    from memories.mcp_tools import memory_recall  # noqa: PLC0415 - after setup()

    memories = memory_recall(caller, query=question).data["memories"]
    if not memories:
        return "nothing"
    is_right = numbers.get(memories[0]["id"]) == number
    return f"{'distant, ' if 'match' in memories[0] else ''}{'right' if is_right else 'wrong'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversations", type=Path)
    options = parser.parse_args()
    scratch.setup()
    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()

    with PAIRS.open(newline="") as file:
        pairs = [*csv.DictReader(file, delimiter="\t")]
    off_topic = [question["text"] for question in lines(options.conversations / "qa.jsonl")[:OFF_TOPIC]]
    asked = {
        "in view": [(pair["question"], str(n)) for n, pair in enumerate(pairs) if n % 2 == 0],
        "held back": [(pair["question"], str(n)) for n, pair in enumerate(pairs) if n % 2],
        "about something else": [(text, "") for text in off_topic],
    }
    columns = ("right", "distant, right", "wrong", "distant, wrong", "nothing")
    with scratch.database():
        caller = Caller(email="bench@example.org", persona="analyst", personas=frozenset({"analyst"}))
        facts = [{"id": str(n), "text": pair["fact"]} for n, pair in enumerate(pairs)]
        numbers = store_documents(facts, caller)
        term_statistics.refresh()
        print(f"| questions | number | {' | '.join(columns)} |")
        print("|---" * (len(columns) + 2) + "|")
        for name, questions in asked.items():
            counts = Counter(answer(text, number, numbers, caller) for text, number in questions)
            print(f"| {name} | {len(questions)} | {' | '.join(str(counts[column]) for column in columns)} |")


if __name__ == "__main__":
    main()
