"""Measure whether memories are found in the language that they were written in, and in others.

    python bench/languages.py [--half seen|unseen|all]
    python bench/languages.py --write-frame --conversations DIR --documents DIR

languages.json has 50 facts of a company in nine languages, each with a question that shares hardly a word with it. The
means and directions of the provider e5 are computed from the first half only. Results of both halves were seen while
the number of directions and question_slope were chosen. For each packaged model, prints how many questions have their
fact first, and among the first three:

- cosine: the facts of one language, by the cosine alone
- across: the question in one language and the facts in another, on average over all pairs
- recall: the facts of one language are the memories of one person, and recall is asked, which also compares words and
  leaves out what it takes for unrelated

--write-frame computes what the provider e5 takes out of its vectors (foundation/embedding/e5.frame): the average of
three means, of the first half of languages.json and of the two directories, which recall_quality.py describes, and the
directions in which the means of the languages in languages.json differ most.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import scratch

FACTS = Path(__file__).with_suffix(".json")
PROVIDERS = ("minilm", "e5")
DIRECTIONS = 8  # one less than languages: as many as their means span
Pair = tuple[str, str]  # fact and question
Hits = tuple[float, float]  # shares of questions whose fact is first, and among the first three


def pairs(half: str) -> dict[str, list[Pair]]:
    """Return facts with their questions by language. The same fact has the same place in each language."""
    halves = json.loads(FACTS.read_text())
    rows = [row for name in halves if half in (name, "all") for row in halves[name]]
    return {language: [tuple(row[language]) for row in rows] for language in rows[0]}


def hits(ranks: Sequence[int]) -> Hits:
    return statistics.fmean(rank == 0 for rank in ranks), statistics.fmean(rank < 3 for rank in ranks)


def by_cosine(facts: Any, questions: Any) -> Hits:
    cosines = questions @ facts.T
    return hits([int((row > row[number]).sum()) for number, row in enumerate(cosines)])


def by_recall(known: dict[str, list[Pair]]) -> dict[str, Hits]:
    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    callers = {
        language: Caller(email=f"{language}@bench.example", persona="analyst", personas=frozenset({"analyst"}))
        for language in known
    }
    found = {}
    with scratch.database():
        for language, rows in known.items():
            remember_many(callers[language], facts=[{"content": fact, "visibility": "private"} for fact, _ in rows])
        term_statistics.refresh()
        for language, rows in known.items():
            ranks = []
            for fact, question in rows:
                result = recall(callers[language], RecallMemories(query=question, limit=50))
                texts = [hit.record.content for hit in result.hits]
                ranks.append(texts.index(fact) if fact in texts else len(texts) + 3)
            found[language] = hits(ranks)
    return found


def measure(half: str) -> None:
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from foundation import embedding  # noqa: PLC0415 - after setup()

    known = pairs(half)
    count = len(next(iter(known.values())))
    print(f"{count} facts and questions in each of {len(known)} languages; shares of first / among three")
    for provider in PROVIDERS:
        settings.EMBEDDING_PROVIDER = provider
        embedding.reset()
        facts = {
            language: embedding.embed([fact for fact, _ in rows], wait_s=60)[0] for language, rows in known.items()
        }
        questions = {
            language: embedding.embed([question for _, question in rows], as_query=True)[0]
            for language, rows in known.items()
        }
        recalled = by_recall(known)
        print(f"\n{provider:<10}{'cosine':>15}{'recall':>15}")
        for language in known:
            alone = by_cosine(facts[language], questions[language])
            print(f"{language:<10}{_shown(alone):>15}{_shown(recalled[language]):>15}")
        others = [language for language in known if language != "en"]
        alone = _mean([by_cosine(facts[language], questions[language]) for language in others])
        print(f"{'not en':<10}{_shown(alone):>15}{_shown(_mean([recalled[language] for language in others])):>15}")
        across = _mean([by_cosine(facts[to], questions[asked]) for asked, to in permutations(known, 2)])
        print(f"{'across':<10}{_shown(across):>15}")


def _mean(rows: Sequence[Hits]) -> Hits:
    return statistics.fmean(first for first, _ in rows), statistics.fmean(three for _, three in rows)


def _shown(found: Hits) -> str:
    return f"{found[0]:.2f} / {found[1]:.2f}"


def write_frame(directories: Sequence[Path]) -> None:
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from foundation import lazy_numpy  # noqa: PLC0415 - after setup()
    from foundation.embedding.e5 import E5, FRAME  # noqa: PLC0415 - after setup()
    from foundation.lazy_numpy import np  # noqa: PLC0415 - after setup()

    lazy_numpy.load()
    model = E5.load(settings.COMMONPLACE_HOME / "models")
    known = pairs("seen")

    def mean(texts: list[str], *, as_query: bool) -> Any:
        return model.embed_raw(texts, as_query=as_query).mean(axis=0)

    by_language = {
        False: np.stack([mean([fact for fact, _ in rows], as_query=False) for rows in known.values()]),
        True: np.stack([mean([question for _, question in rows], as_query=True) for rows in known.values()]),
    }
    means: dict[bool, list[Any]] = {is_query: [rows.mean(axis=0)] for is_query, rows in by_language.items()}
    for directory in directories:
        for is_query, name in ((True, "qa.jsonl"), (False, "records.jsonl")):
            texts = [json.loads(line)["text"] for line in (directory / name).read_text().splitlines()]
            means[is_query].append(mean(texts, as_query=is_query))
    differences = np.concatenate([rows - rows.mean(axis=0) for rows in by_language.values()])
    directions = np.linalg.svd(differences, full_matrices=False)[2][:DIRECTIONS]
    states = [mean_state(model, known, directories)]
    frame = [np.mean(means[True], axis=0), np.mean(means[False], axis=0), *states, *directions]
    np.stack(frame).astype(np.float32).tofile(FRAME)
    print(f"{FRAME.name} written")


def mean_state(model: Any, known: Any, directories: Sequence[Path]) -> Any:
    """Return the mean state of the word pieces of the pairs, and of every twentieth text of the directories."""
    from foundation.lazy_numpy import np  # noqa: PLC0415 - after setup()

    texts = [fact for rows in known.values() for fact, _ in rows]
    for directory in directories:
        lines = (directory / "records.jsonl").read_text().splitlines()
        texts += [json.loads(line)["text"][:600] for line in lines[::20]]
    _, tokens = model.raw_tokens(texts, as_query=False)
    return np.concatenate([each.states for each in tokens]).mean(axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=("seen", "unseen", "all"), default="unseen")
    parser.add_argument("--write-frame", action="store_true")
    parser.add_argument("--conversations", type=Path)
    parser.add_argument("--documents", type=Path)
    options = parser.parse_args()
    scratch.setup()
    if options.write_frame:
        if not (options.conversations and options.documents):
            parser.error("--write-frame needs --conversations and --documents")
        write_frame([options.conversations, options.documents])
    else:
        measure(options.half)


if __name__ == "__main__":
    main()
