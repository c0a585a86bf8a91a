"""Demo content: a fictional retailer, its people, and their memories from seven months.

The services of the apps create it, as they create real content. Loading it again adds only what is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from analysis import findings
from analysis.ingest import ingest
from analysis.models import Session
from analysis.operations import IngestRecords, StoreFindings
from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from knowledge.catalog import metadata_files
from knowledge.changesets.apply import apply
from knowledge.freshness import catalog_load
from knowledge.insights.capture import capture
from knowledge.models import Changeset, Decision, Insight
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Forget, Remember, Supersede, Verify
from memories.retrieval import term_statistics
from memory_project.models import Notification, User
from memory_project.notifications import inbox

FOLDER = Path(__file__).parent
PASSWORD = "fern-demo-2025"
DOMAIN = "fernhill.example"
PERSONAS = {
    "sales-analytics": ("Sales analytics", "Revenue, customers, stores and the web shop."),
    "supply-chain": ("Supply chain", "Stock, suppliers and shipments."),
}
# login → name, personas (the first is the default), role
PEOPLE: dict[str, tuple[str, list[str], str]] = {
    "maya": ("Maya Okafor", ["sales-analytics"], "analyst"),
    "jonas": ("Jonas Lindqvist", ["supply-chain"], "analyst"),
    "priya": ("Priya Raman", ["sales-analytics", "supply-chain"], "curator"),
    "sam": ("Sam Whitfield", ["sales-analytics", "supply-chain"], "admin"),
}
ANALYSIS = "what-we-know-2026"
FINDINGS: list[dict[str, Any]] = [
    {"finding": "Four of six corrections concern orders and lead times.", "category": "pattern", "metadata": {"of": 6}},
    {"finding": "Few memories are preferences; three quarters have the dimension knowledge.", "category": "gap"},
    {"finding": "Most stale memories are notes about data quality.", "category": "quality_issue"},
]
UNREAD_NOTIFICATIONS = 2  # maximum number of notifications per person that stay unread
MARK = "demo"  # metadata key of demo memories; its value is the line number in memories.jsonl, counted from 0


def address(login: str) -> str:
    return f"{login}@{DOMAIN}"


def dataset(name: str) -> str:
    platform, key = ("oracle", name) if name.startswith("pos.") else ("snowflake", f"fernhill.{name}")
    return f"urn:li:dataset:(urn:li:dataPlatform:{platform},{key},PROD)"


@transaction.atomic
def make_people() -> dict[str, User]:
    personas = {
        name: Persona.objects.get_or_create(name=name, defaults={"title": title, "description": description})[0]
        for name, (title, description) in PERSONAS.items()
    }
    curators, _ = Group.objects.get_or_create(name="Curators")
    people = {}
    for login, (name, persona_names, part) in PEOPLE.items():
        user = User.objects.filter(email=address(login)).first()
        if user is None:
            is_admin = part == "admin"
            user = User.objects.create_user(
                address(login), PASSWORD, name=name, is_superuser=is_admin, is_staff=part != "analyst"
            )
            for index, persona in enumerate(persona_names):
                PersonaMembership.objects.create(user=user, persona=personas[persona], is_default=index == 0)
        if part == "curator":
            user.groups.add(curators)
        people[login] = user
    return people


def make_memories(people: dict[str, User]) -> Iterator[bool]:
    """Create those memories of memories.jsonl that are missing. Yields, for each memory, whether it was created now."""
    callers = {login: build_caller(user, channel="demo") for login, user in people.items()}
    rows = [json.loads(line) for line in (FOLDER / "memories.jsonl").read_text().splitlines()]
    records = {
        record.metadata[MARK]: record
        for record in MemoryRecord.objects.filter(metadata__has_key=MARK).only("pk", "metadata")
    }
    keyed_records: dict[str, MemoryRecord] = {}
    # Oldest first, so that a correction follows the memory it corrects.
    for number, row in sorted(enumerate(rows), key=lambda item: -item[1]["days_ago"]):
        record = records.get(number)
        if new := record is None:
            record = _write(callers[row["by"]], row, number, keyed_records)
        if key := row.get("key"):
            keyed_records[key] = record
        yield new
    term_statistics.refresh()


def load_demo_catalog() -> int:
    counts = list(catalog_load.load(metadata_files.read_file(FOLDER / "catalog.json")))
    return counts[-1].writes if counts else 0


def make_insights(people: dict[str, User]) -> int:
    callers = {login: build_caller(user, channel="demo") for login, user in people.items()}
    curator = callers["priya"]
    new = 0
    rows = json.loads((FOLDER / "insights.json").read_text())
    # Oldest first, so that changesets and notifications are in the order of their times.
    for number, row in sorted(enumerate(rows), key=lambda item: -item[1]["days_ago"]):
        started_at = timezone.now()
        captured = capture(
            callers[row["by"]],
            Capture.read(
                {
                    "insight_text": row["text"],
                    "category": row["category"],
                    "confidence": row.get("confidence", "medium"),
                    "source": row.get("source", "agent_discovery"),
                    "entity_urns": [dataset(name) for name in row.get("about", [])],
                    "suggested_actions": row.get("actions", []),
                }
            ),
        )
        if captured.existing:
            continue
        new += 1
        if row.get("state") == "rejected":
            decisions.reject(curator, insight_id=captured.insight.pk, notes=row["notes"])
        elif row.get("state") in ("approved", "applied"):
            decisions.approve(curator, insight_id=captured.insight.pk, notes=row.get("notes", ""))
        if row.get("state") == "applied":
            apply(
                curator,
                Apply.read(
                    {
                        "insight_ids": [captured.insight.pk.hex],
                        "changes": row["actions"],
                        "entity_urn": dataset(row["about"][0]),
                    }
                ),
            )
        _move_back(captured.insight.pk, started_at, row["days_ago"], number)
    return new


def _move_back(insight_id: UUID, started_at: datetime, days_ago: int, number: int) -> None:
    """Let what was done about an insight since `started_at` have happened so many days ago, over four days at most."""
    captured_at = min(_moment(days_ago, number), started_at)
    decided_at = min(captured_at + timedelta(days=min(number % 3 + 1, days_ago), minutes=90), started_at)
    applied_at = min(decided_at + timedelta(hours=2), started_at)
    insight = Insight.objects.filter(pk=insight_id)
    changeset = Changeset.objects.filter(pk__in=insight.values("changeset"))
    notified = Notification.objects.filter(person__email__endswith=f"@{DOMAIN}", at__gte=started_at)
    MemoryRecord.objects.filter(pk=insight_id).update(created_at=captured_at, updated_at=captured_at)
    Decision.objects.filter(insight=insight_id).update(at=decided_at)
    insight.exclude(reviewed_at=None).update(reviewed_at=decided_at)
    insight.exclude(applied_at=None).update(applied_at=applied_at)
    changeset.update(created_at=applied_at, finished_at=applied_at)
    notified.update(at=applied_at)


def mark_old_notifications_read(people: dict[str, User]) -> None:
    """Mark all notifications of each person as read, except the newest ones."""
    for user in people.values():
        caller = build_caller(user, channel="demo")
        for pk in user.notifications.order_by("-at", "-pk").values_list("pk", flat=True)[UNREAD_NOTIFICATIONS:]:
            inbox.mark_read(caller, notice_id=pk)


def make_analyses(people: dict[str, User]) -> int:
    count = 0
    for login in ("maya", "sam"):
        caller = build_caller(people[login], channel="demo")
        if Session.objects.owned_by(caller).filter(analysis_id=ANALYSIS).exists():
            continue
        ingest(caller, IngestRecords(analysis_id=ANALYSIS, model="memory", ingest_all=True, per_page=100))
        findings.store(caller, StoreFindings.read({"analysis_id": ANALYSIS, "findings": FINDINGS, "persistent": True}))
        count += 1
    return count


def _write(caller: Caller, row: dict[str, Any], number: int, keyed_records: dict[str, MemoryRecord]) -> MemoryRecord:
    fields: dict[str, Any] = {
        "content": row["content"],
        "dimension": row["dimension"],
        "category": row["category"],
        "confidence": row["confidence"],
        "visibility": row["visibility"],
        "tags": row.get("tags", []),
        "entity_urns": [dataset(name) for name in row.get("about", [])],
        "related_columns": [
            {"urn": dataset(name), "column": column, "relevance": "what the memory is about"}
            for name, column in row.get("columns", [])
        ],
        "metadata": {MARK: number},
    }
    created_at = _moment(row["days_ago"], number)
    if corrected := row.get("corrects"):
        correction = Supersede.read({"record_id": keyed_records[corrected].pk, "reason": "we looked again", **fields})
        record = services.supersede(caller, correction, created_at=created_at).record
    else:
        fact = Remember.read({"source": row.get("source", "user"), **fields})
        record = services.remember(caller, fact, created_at=created_at).record
    if reason := row.get("stale"):
        services.mark_stale(system_caller(), record_id=record.pk, reason=reason)
        MemoryRecord.objects.filter(pk=record.pk).update(stale_at=_moment(2 + number % 20, number))
    if row.get("forgotten"):
        services.forget(caller, Forget(record_id=record.pk, reason="no longer of use"))
    if row.get("verified"):
        services.verify(caller, Verify(record_id=record.pk, note="checked against the ledger"))
    return record


def _moment(days_ago: int, number: int) -> datetime:
    """Return a time during working hours, different for each memory."""
    day = timezone.now().replace(hour=8, minute=0, second=0, microsecond=0) - timedelta(days=days_ago)
    return day + timedelta(minutes=(number * 37) % 540)
