"""Measure the queries and the time of each page with 100,000 memories and 5,000 insights.

    python bench/pages.py [--records 100000] [--insights 5000] [--rounds 5]

Fills its own database with records of 100 owners in 5 personas, a small catalog, insights in every state, stale
memories with baselines, corrections, and 100,000 audited calls. Then requests every page as an analyst, as a curator
and as an admin, through the complete Django middleware, and prints the number of queries, the median and the slowest
server time in ms, and the size of the response. Vectors are random because pages don't use them.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from datetime import timedelta
from typing import Any

import numpy as np
import scratch
from django.core.management import call_command

OWNERS, PERSONAS, TABLES = 100, 5, 40
WORDS = ["revenue", "refunds", "orders", "returns", "shipments", "stock", "suppliers", "prices", "discounts", "tax"]


def urn(number: int) -> str:
    return f"urn:li:dataset:(urn:li:dataPlatform:snowflake,bench.table_{number:02d},PROD)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--insights", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--show", metavar="PAGE", help="print this page's queries with their times")
    options = parser.parse_args()
    scratch.setup()
    call_command("collectstatic", "--no-input", verbosity=0)
    with scratch.database():
        started = time.perf_counter()
        people = fill(options.records, options.insights)
        print(f"filled with {options.records:,} memories in {time.perf_counter() - started:.0f} s\n")
        report(people, options.rounds, options.show)


# -- test data -----------------------------------------------------------------------------------------------


def fill(records: int, insights: int) -> dict[str, Any]:
    from django.db import connection  # noqa: PLC0415 - after setup()

    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()

    people = make_people()
    make_catalog()
    rows = make_records(records)
    make_insights(rows[:insights])
    make_baselines(rows)
    make_calls(records)
    term_statistics.refresh()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return people


def make_people() -> dict[str, Any]:
    from django.contrib.auth.models import Group  # noqa: PLC0415 - after setup()

    from memories.models import Persona, PersonaMembership  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    personas = [Persona.objects.create(name=f"persona{n}") for n in range(PERSONAS)]
    users = [User(email=f"owner{n}@bench.example", password="!") for n in range(OWNERS)]
    users = User.objects.bulk_create(users)
    PersonaMembership.objects.bulk_create(
        PersonaMembership(user=user, persona=personas[n % PERSONAS], is_default=True) for n, user in enumerate(users)
    )
    curator = User.objects.create_user("curator@bench.example", None, is_staff=True)
    curator.groups.add(Group.objects.get(name="Curators"))
    for index, persona in enumerate(personas[:2]):
        PersonaMembership.objects.create(user=curator, persona=persona, is_default=index == 0)
    admin = User.objects.create_superuser("admin@bench.example", None)
    PersonaMembership.objects.create(user=admin, persona=personas[0], is_default=True)
    return {"analyst": users[0], "curator": curator, "admin": admin}


def make_catalog() -> None:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()

    catalog = LocalCatalog()
    for number in range(TABLES):
        name = f"bench.table_{number:02d}"
        fields = [
            {"fieldPath": f"column_{c}", "nullable": True, "nativeDataType": "VARCHAR", "description": f"Column {c}."}
            for c in range(20)
        ]
        about = {"name": name, "qualifiedName": name, "description": f"One row per thing of {name}."}
        catalog.put(urn(number), "datasetProperties", about, {})
        catalog.put(urn(number), "schemaMetadata", {"schemaName": name, "fields": fields}, {})
        if number:
            upstreams = [{"dataset": urn(number - 1)}]
            catalog.put(urn(number), "upstreamLineage", {"upstreams": upstreams}, {})


def make_records(count: int) -> list[Any]:
    from django.utils import timezone  # noqa: PLC0415 - after setup()

    from memories import embedding  # noqa: PLC0415 - after setup()
    from memories.models import Category, Dimension, MemoryRecord, Passage  # noqa: PLC0415 - after setup()
    from memories.retrieval import vector_index  # noqa: PLC0415 - after setup()

    dice, space = random.Random(7), np.random.default_rng(7)
    now = timezone.now()
    rows: list[Any] = []
    for number in range(count):
        owner = number % OWNERS
        text = f"{' '.join(dice.choices(WORDS, k=9))} in bench.table_{number % TABLES:02d}, note {number}."
        row = MemoryRecord(
            created_by=f"owner{owner}@bench.example",
            persona=f"persona{owner % PERSONAS}",
            visibility=dice.choices(["persona", "private", "everyone"], [80, 10, 10])[0],
            dimension=dice.choice(Dimension.values),
            category=dice.choice(Category.values),
            content=text.capitalize(),
            tags=dice.sample(WORDS, k=2),
            entity_urns=[urn(number % TABLES)],
            created_at=now - timedelta(minutes=dice.randrange(400_000)),
            embedding_model="bench",
            embedding_text_hash=embedding.text_hash(text.capitalize()),
        )
        if number % 100 == 7:
            row.status, row.stale_at = "stale", now - timedelta(hours=number % 900)
            row.stale_reason = f"bench.table_{number % TABLES:02d}: the column column_{number % 3} was removed"
        if number % 50 == 3 and number > 100:  # corrects the record 100 rows earlier, which has the same owner
            row.supersedes = rows[-100]
            old = rows[-100]
            old.status, old.superseded_by, old.superseded_at = "superseded", row.pk, now
            old.stale_at, old.stale_reason = None, ""
        rows.append(row)
    for start in range(0, count, 2_000):
        part = MemoryRecord.objects.bulk_create(rows[start : start + 2_000])
        Passage.objects.bulk_create(
            Passage(record=row, start=0, stop=len(row.content), vector=space.standard_normal(384)) for row in part
        )
    vector_index.train()
    return [row for row in rows if row.status == "active"]


def make_insights(rows: list[Any]) -> None:
    from django.utils import timezone  # noqa: PLC0415 - after setup()

    from knowledge.models import Change, Changeset, Insight  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    now, insights, changesets, changes = timezone.now(), [], [], []
    for number, row in enumerate(rows):
        state = ("pending", "pending", "approved", "rejected", "applied")[number % 5]
        action = {"action_type": "update_description", "target": "column:column_1", "detail": row.content}
        insight = Insight(record=row, state=state, suggested_actions=[action])
        if state != "pending":
            insight.reviewed_by, insight.reviewed_at = "curator@bench.example", now
        if state == "applied":
            changeset = Changeset(
                entity_urn=row.entity_urns[0],
                persona=row.persona,
                personas=[row.persona],
                catalog="local",
                state="applied",
                insight_ids=[row.pk.hex],
                applied_by="curator@bench.example",
                created_at=row.created_at,
            )
            changesets.append(changeset)
            changes.append(
                Change(
                    changeset=changeset,
                    position=0,
                    request=0,
                    change_type="update_description",
                    urn=row.entity_urns[0],
                    aspect="editableSchemaMetadata",
                    path=["editableSchemaFieldInfo", "column_1", "description"],
                    operation="add",
                    had_before=False,
                    written=row.content,
                    outcome="landed",
                )
            )
            insight.changeset, insight.applied_by, insight.applied_at = changeset, "curator@bench.example", now
        insights.append(insight)
    Changeset.objects.bulk_create(changesets)
    Change.objects.bulk_create(changes)
    Insight.objects.bulk_create(insights)
    pending = [insight.pk for insight in insights if insight.state == "pending"]
    MemoryRecord.objects.filter(pk__in=pending).update(visibility="private")


def make_baselines(rows: list[Any]) -> None:
    from knowledge.models import EntityBaseline  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    columns = {f"column_{c}": ["VARCHAR", True] for c in range(22)}  # two columns more than the tables have now
    stale = MemoryRecord.objects.filter(status="stale").only("pk", "entity_urns")
    EntityBaseline.objects.bulk_create(
        EntityBaseline(record=row, urn=row.entity_urns[0], existed=True, columns=columns) for row in stale
    )


def make_calls(count: int) -> None:
    from django.utils import timezone  # noqa: PLC0415 - after setup()

    from memory_project.models import AuditEvent  # noqa: PLC0415 - after setup()

    dice, now = random.Random(8), timezone.now()
    AuditEvent.objects.bulk_create(
        (
            AuditEvent(
                at=now - timedelta(seconds=dice.randrange(30 * 86_400)),
                email=f"owner{dice.randrange(OWNERS)}@bench.example",
                channel="mcp-http",
                tool=dice.choice(["memory_recall", "memory_manage", "capture_insight", "catalog_search"]),
                outcome="error" if dice.random() < 0.03 else "ok",
                duration_ms=dice.expovariate(1 / 20),
            )
            for _ in range(count)
        ),
        batch_size=5_000,
    )


# -- measurement ---------------------------------------------------------------------------------------------


def pages(role: str, user: Any) -> list[tuple[str, str]]:
    """Return the names and addresses of the pages of this role, with ids of rows that the user may see."""
    from django.urls import reverse  # noqa: PLC0415 - after setup()

    from knowledge.insights import queries as curation  # noqa: PLC0415 - after setup()
    from memories import queries  # noqa: PLC0415 - after setup()
    from memories.identity.permissions import build_caller  # noqa: PLC0415 - after setup()

    caller = build_caller(user, channel="bench")
    correction = queries.corrections(caller)[0]
    addresses = [
        ("My Knowledge", "/"),
        ("… filtered", "/?category=correction&tag=stock"),
        ("… an entity", f"/?entity={urn(3)}"),
        ("… search", "/?q=refunds+of+stock+in+table_03"),
        ("memory", reverse("memory", args=[correction.pk])),
        ("chain", reverse("chain", args=[correction.pk])),
        ("New memory", "/memories/new/"),
        ("My Insights", "/insights/"),
        ("Knowledge", "/knowledge/"),
        ("entity", f"/knowledge/entity/?urn={urn(3)}"),
        ("Stale review", "/stale/"),
        ("Activity", "/activity/"),
        ("Connect", "/connect/"),
    ]
    if role != "analyst":
        changeset = curation.changesets(caller)[0]
        review_address = reverse("review-one", args=[curation.waiting(caller)[7].pk])
        addresses += [
            ("Review", review_address),
            ("all insights", "/review/all/"),
            ("Changesets", "/changesets/"),
            ("changeset", reverse("changeset", args=[changeset.pk])),
            ("roll back", reverse("roll-back", args=[changeset.pk])),
            ("Corrections", "/corrections/"),
            ("Dashboard", "/admin/"),
            ("Tables", "/admin/tables/"),
            ("memories (table)", "/admin/memories/memoryrecord/"),
            ("… one month", "/admin/memories/memoryrecord/?created_at__year=2026&created_at__month=11"),
            ("… with counts", "/admin/memories/memoryrecord/?_facets=True"),
            ("insights (table)", "/admin/knowledge/insight/"),
            ("stale (table)", "/admin/memories/stalememory/"),
        ]
    if role == "admin":
        addresses += [("System", "/admin/system/"), ("Indexing", "/admin/indexing/")]
        addresses += [("Audit", "/admin/audit/"), ("People", "/admin/people/"), ("person", f"/admin/people/{user.pk}/")]
    return addresses


class StatementRecorder:
    """Record each SQL statement of a request with its duration in ms."""

    def __init__(self) -> None:
        self.statements: list[tuple[float, str]] = []

    def __call__(self, run: Any, sql: str, *rest: Any) -> Any:
        started = time.perf_counter()
        try:
            return run(sql, *rest)
        finally:
            self.statements.append((1000 * (time.perf_counter() - started), sql))


def report(people: dict[str, Any], rounds: int, show: str | None) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()
    from django.test import Client  # noqa: PLC0415 - after setup()

    print(f"{'as':8} {'page':18} {'queries':>7} {'median':>8} {'slowest':>8} {'kB':>6}")
    for role, user in people.items():
        client = Client(HTTP_HOST="localhost")
        client.force_login(user)
        for name, address in pages(role, user):
            client.get(address)  # warms up templates and query plans
            recorder = StatementRecorder()
            with connection.execute_wrapper(recorder):
                response = client.get(address)
            assert response.status_code == 200, (address, response.status_code)
            times = []
            for _ in range(rounds):
                started = time.perf_counter()
                client.get(address)
                times.append(1000 * (time.perf_counter() - started))
            median, slowest, size = statistics.median(times), max(times), len(response.content) / 1000
            mark = "  <—" if len(recorder.statements) > 12 or median > 150 else ""
            print(f"{role:8} {name:18} {len(recorder.statements):7} {median:8.0f} {slowest:8.0f} {size:6.0f}{mark}")
            if show == name:
                for took, sql in recorder.statements:
                    print(f"    {took:7.1f} ms  {sql[:160]}")


if __name__ == "__main__":
    main()
