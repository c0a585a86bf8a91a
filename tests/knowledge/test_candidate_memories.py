"""The compiled statement finds what the rules find, whatever the rows are."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from foundation.database import identity
from foundation.people.caller import Caller
from knowledge.catalog.neighbors import neighbors_of
from knowledge.context import candidate_memories
from knowledge.context.attachable import allowed_automatically, attachable
from knowledge.context.candidate_memories import FOR_MATCH, FOR_NEIGHBOR, Criteria, MemoriesForCall, find
from knowledge.context.caveats import is_caveat, paths_to
from knowledge.models import Changeset, Insight, InsightState
from memories.models import Attachment, Feedback, MemoryRecord, Status, Tier, Verdict, Verification, Visibility
from memories.models.record import ATTACHED, about_any
from memories.models.validity import is_over, outside
from memories.models.verification import version_of
from memories.retrieval import term_statistics
from tests.knowledge.conftest import MART, ORDERS, REFUNDS

pytestmark = pytest.mark.usefixtures("small_catalog")
ALL = 1_000
ELSEWHERE = ORDERS.replace("sales.orders", "web.visits")
OWNERS = ("alice@example.org", "bob@example.org", "olga@example.org")
WORDS = ("closed", "amount", "harvest", "mart")


def ids(rows: Any) -> set[UUID]:
    return {row.pk if isinstance(row, MemoryRecord) else row.record.pk for row in rows}


def random_memory(dice: random.Random, number: int) -> MemoryRecord:
    now = timezone.now()
    status = dice.choice(
        [Status.ACTIVE, Status.ACTIVE, Status.ACTIVE, Status.STALE, Status.SUPERSEDED, Status.ARCHIVED]
    )
    around = [None, None, now - timedelta(days=1), now + timedelta(days=1)]
    starts, ends = dice.choice(around), dice.choice(around)
    if starts and ends and ends <= starts:
        ends = None
    is_turn = dice.random() < 0.1
    return MemoryRecord(
        content=f"{' '.join(dice.sample(WORDS, 2))} {number}",
        created_by=dice.choice(OWNERS),
        persona=dice.choice(["sales", "supply"]),
        visibility=dice.choice(Visibility.values),
        status=status,
        stale_at=now if status == Status.STALE else None,
        stale_reason="a column went" if status == Status.STALE else "",
        superseded_by=uuid.uuid4() if status == Status.SUPERSEDED else None,
        superseded_at=now if status == Status.SUPERSEDED else None,
        valid_from=starts,
        valid_until=ends,
        expires_at=dice.choice([None, None, None, now - timedelta(days=1), now + timedelta(days=1)]),
        category=dice.choice(["data_quality", "business_context"]),
        entity_urns=dice.choice([[], [ORDERS], [MART, REFUNDS], [REFUNDS], [ELSEWHERE]]),
        detected_urns=dice.choice([[], [], [MART], [ORDERS]]),
        attachment=dice.choice(Attachment.values),
        quiet_at=dice.choice([None, None, now]),
        tier=dice.choice([Tier.SHORT_TERM, Tier.LONG_TERM]) if is_turn else Tier.NONE,
        conversation_id="a talk" if is_turn else "",
    )


@pytest.fixture(params=range(4))
def world(request: pytest.FixtureRequest, db: None) -> random.Random:
    """Fill the tables that the rules depend on with random rows."""
    dice = random.Random(request.param)
    now = timezone.now()
    with identity.service("command"):
        records = MemoryRecord.objects.bulk_create(random_memory(dice, number) for number in range(160))
        versions = dict(MemoryRecord.objects.values_list("pk", version_of()))
        changeset = Changeset.objects.create(applied_by="cora@example.org")
        for record in records:
            if dice.random() < 0.3:
                state = dice.choice(InsightState.values)
                is_applied = state == InsightState.APPLIED
                Insight.objects.create(
                    record=record,
                    state=state,
                    reviewed_by="cora@example.org",
                    reviewed_at=now,
                    changeset=changeset if is_applied else None,
                    applied_at=now if is_applied else None,
                )
            if dice.random() < 0.4:
                Verification.objects.create(
                    record=record,
                    by=dice.choice(OWNERS),
                    is_own=dice.random() < 0.2,
                    version=versions[record.pk] if dice.random() < 0.7 else "another version",
                    detected_urns=dice.choice([[], record.detected_urns]),
                )
            if dice.random() < 0.1:
                verdict = dice.choice([Verdict.WRONG, Verdict.USEFUL])
                Feedback.objects.create(record=record, by=dice.choice(OWNERS), verdict=verdict)
    return dice


@pytest.fixture(params=["alice", "olga", "ada", "nobody"])
def caller(request: pytest.FixtureRequest) -> Caller:
    if request.param == "nobody":
        return Caller(email="stranger@example.org", persona="", personas=frozenset())
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def found(caller: Caller, **criteria: Any) -> MemoriesForCall:
    with identity.acting_as(caller):
        return find(caller, Criteria(limit=ALL, **criteria))


@pytest.mark.parametrize("urns", [[ORDERS], [MART, REFUNDS], []], ids=["one", "two", "none"])
def test_the_statement_finds_what_the_rules_allow(world: random.Random, caller: Caller, urns: list[str]) -> None:
    words = dict.fromkeys(WORDS, FOR_MATCH | FOR_NEIGHBOR)
    result = found(caller, urns=urns, answered=[ELSEWHERE], words=words)
    with identity.acting_as(caller):
        about = about_any(urns)
        assert ids(result.entity) == ids(attachable(caller, urns).filter(about))

        reached = [*neighbors_of(urns), ELSEWHERE]
        assert sorted(result.near) == sorted(neighbors_of(urns))
        near = attachable(caller, reached).filter(about_any(reached), ~about)
        assert ids(result.neighbor) <= ids(near)
        assert len(result.neighbor) == min(near.count(), 30)

        by_words = allowed_automatically(caller, statuses=(Status.ACTIVE, Status.STALE))
        matching = by_words.filter(ATTACHED, ~about, ~about_any(reached))
        assert ids(result.match) <= ids(matching)
        assert len(result.match) == min(matching.count(), 60)

        sources = sorted({path.urns[0] for path in paths_to(urns)})
        caveats = attachable(caller, sources).filter(is_caveat(), about_any(sources), ~about)
        assert ids(result.caveat) == ids(caveats.order_by("-updated_at", "pk")[:50])


def test_the_statement_counts_what_is_left_out(world: random.Random, caller: Caller) -> None:
    result = found(caller, urns=[ORDERS, MART])
    with identity.acting_as(caller):
        pending = Insight.objects.filter(pk=OuterRef("pk"), state=InsightState.PENDING)
        readable = MemoryRecord.objects.visible_to(caller).lasting().filter(about_any([ORDERS, MART]))
        counts = readable.aggregate(
            stale=Count("pk", filter=Q(status=Status.STALE)),
            waiting=Count("pk", filter=Q(status=Status.ACTIVE) & Q(Exists(pending))),
            not_valid=Count("pk", filter=Q(status=Status.ACTIVE) & outside()),
            quiet=Count("pk", filter=Q(status=Status.ACTIVE) & ~ATTACHED),
        )
    assert {name: getattr(result, name) for name in counts} == counts


def test_flags_and_ends_are_those_of_the_rows(world: random.Random, caller: Caller) -> None:
    shown = world.sample(sorted(MemoryRecord.objects.values_list("pk", flat=True)), 60)
    result = found(caller, urns=[ORDERS, MART], shown=shown)
    with identity.acting_as(caller):
        applied = set(Insight.objects.filter(state=InsightState.APPLIED).values_list("pk", flat=True))
        ended = Q(status=Status.STALE) | Q(status=Status.ACTIVE) & is_over()
        rows = MemoryRecord.objects.visible_to(caller).lasting().filter(ended, pk__in=shown)
        assert ids(result.ended) == ids(rows)
    assert {row.record.pk for row in result.entity if row.is_applied} == ids(result.entity) & applied


def test_memories_on_request_are_found_only_on_request(world: random.Random, alice: Caller) -> None:
    with identity.acting_as(alice):
        allowed = allowed_automatically(alice, [ORDERS]).filter(about_any([ORDERS]))
        quiet = ids(allowed.filter(~ATTACHED))
    assert quiet
    assert not quiet & ids(found(alice, urns=[ORDERS]).entity)
    assert quiet <= ids(found(alice, urns=[ORDERS], on_request=True).entity)


def test_without_neighbors_nothing_else_is_missing(world: random.Random, alice: Caller) -> None:
    words = dict.fromkeys(WORDS, FOR_MATCH | FOR_NEIGHBOR)
    whole = found(alice, urns=[MART], words=words)
    less = found(alice, urns=[MART], words=words, with_neighbors=False)
    assert whole.neighbor
    assert (less.neighbor, less.caveat, less.near) == ([], [], [])
    assert ids(less.entity) == ids(whole.entity)
    assert ids(whole.match) <= ids(less.match)


def test_words_that_are_in_too_many_memories_are_not_searched(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of too many rows would be compared is chance, and the index is read for all of them."""
    monkeypatch.setattr(candidate_memories, "CANDIDATE_ROWS", 5)
    monkeypatch.setattr(candidate_memories, "ROWS_COMPARED", 10)
    texts = [f"amount harvest {number}" for number in range(40)] + ["amount harvest closed, now and then"] * 6
    with identity.service("command"):
        MemoryRecord.objects.bulk_create(
            MemoryRecord(content=text, created_by=alice.email, persona="sales", visibility="everyone") for text in texts
        )
        term_statistics.refresh()
    assert found(alice, words=dict.fromkeys(("amount", "harvest"), FOR_MATCH)).match == []
    rarer = found(alice, words=dict.fromkeys(("amount", "harvest", "closed"), FOR_MATCH)).match
    assert {row.record.content for row in rarer} == {"amount harvest closed, now and then"}
