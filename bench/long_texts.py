"""Measure whether semantic search finds a sentence at any position of a long text.

    python bench/long_texts.py [--documents]

Ten memories, or catalog documents, of 4,000 characters each contain one fact among unrelated sentences: at the start,
in the middle or at the end. Each question asks for a fact in other words. Prints for how many of the ten facts the
right memory or document is ranked first, and among the first five.
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import scratch

FACTS = [
    ("Gift vouchers lose their value after three months.", "When do presents bought as coupons expire?"),
    ("The night shift in Graz was closed in spring.", "Which site no longer works after dark?"),
    ("Prices on the web shop include sales tax.", "Is VAT contained in what customers see online?"),
    ("Suppliers from overseas are paid in dollars.", "Which currency do foreign vendors receive?"),
    ("Employees get a fifth off everything they buy.", "How large is the staff discount?"),
    ("Damaged parcels are sent back to the factory.", "What happens with broken packages?"),
    ("Children under twelve ride the store train for free.", "Do kids have to pay for the little railway?"),
    ("Bicycles may be tried out before they are bought.", "Can one test a bike prior to purchase?"),
    ("The database of clients is copied every Sunday.", "On which day is the customer backup made?"),
    ("Frozen fish arrives by ship from Norway.", "How does seafood from Scandinavia get here?"),
]
SUBJECTS = ("the depot", "the ledger", "a pallet", "the planning team", "the printer", "an invoice", "the forklift")
VERBS = ("was moved to", "was checked against", "is kept beside", "was ordered for", "is described in")
ENDS = ("the second hall", "the plan of March", "the list of May", "a report of the auditors", "building seven")
LENGTH = 4_000


def text(fact: str, location: str, dice: random.Random) -> str:
    sentences: list[str] = []
    while sum(map(len, sentences)) + len(sentences) < LENGTH - len(fact) - 80:
        subject = dice.choice(SUBJECTS).capitalize()
        sentences.append(f"{subject} {dice.choice(VERBS)} {dice.choice(ENDS)} on day {dice.randint(1, 300)}.")
    position = {"start": 0, "middle": len(sentences) // 2, "end": len(sentences)}[location]
    return " ".join([*sentences[:position], fact, *sentences[position:]])


def ranks_of_documents(location: str) -> list[int]:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
    from knowledge.catalog.search import search  # noqa: PLC0415 - after setup()
    from memories.retrieval import indexing  # noqa: PLC0415 - after setup()

    dice, catalog = random.Random(3), LocalCatalog()
    urns = [f"urn:li:document:{location}-{number}" for number in range(len(FACTS))]
    for urn, (fact, _) in zip(urns, FACTS, strict=True):
        value = {"title": f"Notes {urn[-1]}", "contents": {"text": text(fact, location, dice)}}
        catalog.put(urn, "documentInfo", value, {})
    while indexing.run_batch("bench") != (0, 0):
        pass
    ranks_found = []
    for urn, (_, question) in zip(urns, FACTS, strict=True):
        names = [entity.urn for entity in search(catalog, question).entities]
        ranks_found.append(names.index(urn) + 1 if urn in names else 99)
    for urn in urns:  # Everyone can read documents, so remove these before the next location is measured.
        catalog.put(urn, "status", {"removed": True}, {})
    return ranks_found


def ranks(location: str) -> list[int]:
    from foundation.people.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories  # noqa: PLC0415 - after setup()
    from memories.retrieval.recall import recall  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()

    dice = random.Random(3)
    caller: Any = Caller(email=f"{location}@bench.example", persona="bench", personas=frozenset({"bench"}))
    facts = [{"content": text(fact, location, dice), "visibility": "private"} for fact, _ in FACTS]
    records = [record for record, _ in remember_many(caller, facts=facts)]
    ranks_found = []
    for record, (_, question) in zip(records, FACTS, strict=True):
        hits = [hit.record.pk for hit in recall(caller, RecallMemories(query=question)).hits]
        ranks_found.append(hits.index(record.pk) + 1 if record.pk in hits else 99)
    return ranks_found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", action="store_true", help="search catalog documents instead of memories")
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        print(f"{'position of the fact':<22}{'first':>8}{'top 5':>8}   of {len(FACTS)}")
        for location in ("start", "middle", "end"):
            order = ranks_of_documents(location) if options.documents else ranks(location)
            print(f"{location:<22}{sum(p == 1 for p in order):>8}{sum(p <= 5 for p in order):>8}")


if __name__ == "__main__":
    main()
