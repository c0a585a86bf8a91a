"""Other memories for bench/delivery.py: what a whole company would know about tables that no statement asks for."""

from __future__ import annotations

import random
from typing import Any

SEED = 2026
ADDRESS = "others@bench.example"
SCHEMAS = ("logistics", "service", "retail_ops", "ecommerce", "people", "treasury", "merchandising", "facilities")
SUBJECTS = (
    "parcel", "delivery slot", "gift card", "invoice", "wholesale quote", "supplier claim", "label print",
    "cash drawer", "till session", "planogram", "markdown", "coupon mail", "store audit", "energy meter", "lease",
    "shift swap", "payroll run", "applicant", "training course", "photo shoot", "sample request", "fabric roll",
    "factory visit", "customs entry", "container", "pallet move", "dock slot", "courier route", "chat transcript",
    "complaint", "review rating", "wishlist", "push message", "newsletter", "affiliate click", "banner view",
    "experiment", "feed export", "marketplace listing", "marketplace fee", "chargeback", "fraud case",
    "bank statement", "vat return", "budget line", "cost centre", "asset", "insurance claim", "repair job", "badge",
)  # fmt: skip
SHAPES = ("events", "daily", "summary", "archive")
COLUMNS = ("opened_at", "closed_at", "amount", "quantity", "state", "owner_team", "country", "is_test", "note", "kind")
TEAMS = ("finance", "the service desk", "logistics", "the shop team", "audit", "merchandising", "payroll", "IT")
MONTHS = ("January", "March", "April", "June", "August", "September", "November")
# {name}: the table, or its words. {words}: what it is about. {n}: a number.
TEMPLATES = (
    "{name}: rows with state '{code}' are drafts, leave them out.",
    "In {name} the amount is in cents until {month}, in euros after.",
    "opened_at of {name} is local time, {n} minutes off for the shops in Denmark.",
    "{team} rebuilds {name} every night at {n} past four.",
    "Do not join {name} on the {words} id alone, it restarts in {month}.",
    "Entries of {name} below {n} come from the rollout test of {team}.",
    "A {words} counts as closed once {team} has signed it, {n} days later on average.",
    "{name} has no rows for {month} because the export failed; {team} has a copy.",
    "Quantity in {name} is per box of {n}.",
    "{team} calls a {words} late after {n} hours.",
    "Since {month}, {name} holds the {words} data of the outlets too.",
    "The {words} figures for country '{code}' are estimates by {team}.",
    "Use the newest row per {words}, {name} keeps up to {n} versions.",
    "{team} wants every {words} over {n} euros checked by two people.",
    "kind '{code}' in {name} was renamed in {month}; both spellings occur.",
    "Double bookings of a {words}: take the one with the later closed_at, {team} deletes the rest after {n} days.",
    "Numbers for {words} in the {month} report differ from {name} by {n} because of late entries.",
    "owner_team in {name} is who opened it and not who works on it; {team} keeps that in a list with {n} names.",
)


def fill(count: int) -> None:
    """Store `count` memories of one more person, and the tables that they are about."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    from foundation.people.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics, vector_index  # noqa: PLC0415 - after setup()
    from memories.writing.bulk_import import remember_many  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    user = User.objects.create_user(ADDRESS, "a long password")
    PersonaMembership.objects.create(user=user, persona=Persona.objects.get(name="sales-analytics"), is_default=True)
    tables = other_tables()
    fill_catalog(tables)
    remember_many(build_caller(user, channel="bench"), facts=facts(tables, count))
    vector_index.train()
    term_statistics.refresh()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def other_tables() -> dict[str, str]:
    """Return the names of the tables, and what each is about."""
    return {
        f"{SCHEMAS[number % len(SCHEMAS)]}.{subject.replace(' ', '_')}_{shape}": subject
        for number, subject in enumerate(SUBJECTS)
        for shape in SHAPES
    }


def fill_catalog(tables: dict[str, str]) -> None:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    catalog = LocalCatalog()
    for table, subject in tables.items():
        name = f"fernhill.{table}"
        properties = {"name": table.rpartition(".")[2], "qualifiedName": name, "description": f"About each {subject}."}
        catalog.put(demo.dataset(table), "datasetProperties", properties, {})
        columns = (f"{subject.replace(' ', '_')}_id", *COLUMNS)
        fields = [{"fieldPath": column, "nativeDataType": "", "type": {"type": {}}} for column in columns]
        catalog.put(demo.dataset(table), "schemaMetadata", {"schemaName": name, "fields": fields}, {})


def facts(tables: dict[str, str], count: int) -> list[dict[str, Any]]:
    """Return distinct facts: a third with stated entities, a third with names of tables, a third in words alone."""
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    dice = random.Random(SEED)
    names = list(tables)
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        table, template = dice.choice(names), dice.choice(TEMPLATES)
        way = dice.randrange(3)
        tail = table.rpartition(".")[2]
        name = dice.choice([table, tail]) if way < 2 else f"the {tail.replace('_', ' ')}"
        text = template.format(
            name=name,
            words=tables[table],
            n=dice.randrange(2, 400),
            month=dice.choice(MONTHS),
            team=dice.choice(TEAMS),
            code=f"{dice.choice('abcdefgh')}{dice.randrange(10, 99)}",
        )
        text = text[0].upper() + text[1:]
        found[text] = {"content": text, "entity_urns": [demo.dataset(table)] if way == 0 else []}
    return list(found.values())
