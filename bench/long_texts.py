"""Whether a sentence in a long text is found by meaning, wherever it stands.

    python bench/long_texts.py [--documents]

Ten memories, or documents of the catalog, of 4,000 characters each hold one fact among sentences about other things, at
the start, in the middle or at the end; each fact is asked for in words that it does not use. Printed is for how many of
the ten the memory or document is among the first five, and the first.
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
    from knowledge.catalog.search import search  # noqa: PLC0415 - the same
    from memories.retrieval import indexing  # noqa: PLC0415 - the same

    dice, catalog = random.Random(3), LocalCatalog()
    urns = [f"urn:li:document:{location}-{number}" for number in range(len(FACTS))]
    for urn, (fact, _) in zip(urns, FACTS, strict=True):
        value = {"title": f"Notes {urn[-1]}", "contents": {"text": text(fact, location, dice)}}
        catalog.put(urn, "documentInfo", value, {})
    while indexing.run_batch("bench") != (0, 0):
        pass
    answer = []
    for urn, (_, question) in zip(urns, FACTS, strict=True):
        names = [entity.urn for entity in search(catalog, question).entities]
        answer.append(names.index(urn) + 1 if urn in names else 99)
    for urn in urns:  # everybody sees a document: the next ten are asked for among themselves
        catalog.put(urn, "status", {"removed": True}, {})
    return answer


def ranks(location: str) -> list[int]:
    from memories.identity.caller import Caller  # noqa: PLC0415 - after setup()
    from memories.operations import RecallMemories  # noqa: PLC0415 - the same
    from memories.retrieval.recall import recall  # noqa: PLC0415 - the same
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - the same

    dice = random.Random(3)
    caller: Any = Caller(email=f"{location}@bench.example", persona="bench", personas=frozenset({"bench"}))
    facts = [{"content": text(fact, location, dice), "visibility": "private"} for fact, _ in FACTS]
    records = [record for record, _ in remember_many(caller=caller, facts=facts)]
    answer = []
    for record, (_, question) in zip(records, FACTS, strict=True):
        hits = [hit.record.pk for hit in recall(RecallMemories(query=question), caller=caller).hits]
        answer.append(hits.index(record.pk) + 1 if record.pk in hits else 99)
    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", action="store_true", help="of the catalog, instead of memories")
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        print(f"{'the fact stands at':<22}{'first':>8}{'in five':>8}   of {len(FACTS)}")
        for location in ("start", "middle", "end"):
            order = ranks_of_documents(location) if options.documents else ranks(location)
            print(f"{location:<22}{sum(p == 1 for p in order):>8}{sum(p <= 5 for p in order):>8}")


if __name__ == "__main__":
    main()
