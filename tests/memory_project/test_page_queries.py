"""Every page takes at most 12 queries, however many rows there are: those that the links reach, as each role."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from django.test import Client

from memory_project.models import User
from tests.page_crawl import crawl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "bench"))

import page_data
import page_rows

MAX_QUERIES = 12
CHANGE_PAGE = "shows history, correction chain and related rows, each scoped by the caller"
# Pages that need more, with the number that they may take and the reason. None depends on the number of rows.
EXCEPTIONS: dict[str, tuple[int, str]] = {
    "memory": (16, "history, chain, verdicts, verification, version and insight of a memory"),
    "review-one": (15, "reads the evidence of an insight, the effect on the catalog and the queue"),
    "roll-back": (14, "plans the roll-back against current values in the catalog"),
    "admin:index": (13, "names the model of the newest vector while no model is ready, and counts rows once a minute"),
    "admin:person": (14, "personas, tokens, apps, groups and hand-overs of a person"),
    "admin:knowledge_changeset_changelist": (14, "filters with the values of three columns"),
    "admin:knowledge_insight_changelist": (13, "filters with the values of two columns"),
    "admin:memory_project_user_change": (15, "the form has a list of choices for each relation"),
    "admin:knowledge_changeset_change": (14, CHANGE_PAGE),
    "admin:knowledge_insight_change": (17, CHANGE_PAGE),
    "admin:memories_memoryrecord_change": (16, CHANGE_PAGE),
    "admin:memories_stalememory_change": (16, CHANGE_PAGE),
    "admin:memories_correction_change": (17, CHANGE_PAGE),
}


@pytest.fixture
def people(db: None) -> dict[str, User]:
    """Fill the database with enough rows that a list with one query for each row exceeds the limit."""
    page_data.fill(page_rows.Size(memories=600, owners=40))
    emails = {"analyst": "owner7@bench.example", "curator": page_rows.CURATOR, "admin": page_rows.ADMIN}
    return {role: User.objects.get(email=email) for role, email in emails.items()}


def test_pages_take_few_queries(people: dict[str, User]) -> None:
    excess, routes = [], set()
    for role, person in people.items():
        client = Client()
        client.force_login(person)
        for route, page in crawl(client).items():
            routes.add(route)
            limit, _ = EXCEPTIONS.get(route, (MAX_QUERIES, ""))
            if page.queries > limit:
                excess.append(f"{route} as {role}: {page.queries} queries, {page.address}")
    assert not excess, "\n".join(excess)
    assert set(EXCEPTIONS) <= routes  # no exception outlives its page
