"""Measure which minimum score silences off-topic questions, and how many answers it costs.

    python bench/off_topic.py DOCUMENTS CONVERSATIONS

The directories are those of recall_quality.py. Stores the documents, asks their own questions and the questions of the
conversations, and prints for each minimum score the share of the conversations' questions that find nothing, and the
share of the documents' questions whose answer was among the first ten and is lost. Then it does the same with the
memories of the demo, which have no questions of their own.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import scratch
from recall_quality import lines, store_documents

SCORES = (0.1, 0.15, 0.2, 0.22, 0.25, 0.3)
OFF_TOPIC = 300


def best_scores(questions: list[dict[str, Any]], source_ids: dict[str, str], caller: Any) -> list[tuple[float, float]]:
    """Return for each question the best score, and the best score of an answer among the first ten (0 if none)."""
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()

    best = []
    for question in questions:
        hits = recall(caller, RecallMemories(query=question["text"])).hits
        relevant = set(question["relevant"])
        answers = [hit.score for hit in hits if source_ids.get(hit.record.pk.hex) in relevant]
        best.append((max((hit.score for hit in hits), default=0.0), max(answers, default=0.0)))
    return best


def table(off_topic: list[tuple[float, float]], answerable: list[tuple[float, float]]) -> None:
    for score in SCORES:
        silenced = sum(best <= score for best, _ in off_topic) / len(off_topic)
        found = [answer for _, answer in answerable if answer]
        lost = f", answers lost {sum(answer <= score for answer in found) / len(found):.1%}" if found else ""
        print(f"{score:.2f}: off-topic questions silenced {silenced:.1%}{lost}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", type=Path)
    parser.add_argument("conversations", type=Path)
    options = parser.parse_args()
    scratch.setup()
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    settings.RECALL_MIN_SCORE = 0.0
    off_topic = lines(options.conversations / "qa.jsonl")[:OFF_TOPIC]
    facts = [{"id": str(n), **json.loads(row)} for n, row in enumerate((demo.FOLDER / "memories.jsonl").open())]
    worlds = [
        ("documents", lines(options.documents / "records.jsonl"), lines(options.documents / "qa.jsonl")),
        ("demo", [{"id": fact["id"], "text": fact["content"]} for fact in facts if fact.get("content")], []),
    ]
    for name, records, questions in worlds:
        with scratch.database():
            caller = Caller(email="bench@example.org", persona="analyst", personas=frozenset({"analyst"}))
            source_ids = store_documents(records, caller)
            term_statistics.refresh()
            print(f"{name}: {len(records)} memories, {len(off_topic)} off-topic questions, {len(questions)} of its own")
            table(best_scores(off_topic, source_ids, caller), best_scores(questions, source_ids, caller))


if __name__ == "__main__":
    main()
