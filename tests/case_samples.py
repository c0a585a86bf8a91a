"""Three cases of each kind for one person, who must be an admin, and what deciding each of them looks like."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.cases.kinds import case_id
from foundation.database import identity
from foundation.people.caller import Caller, system_caller
from knowledge.graph.entities import create_entities
from knowledge.graph.models import Entity, Observation, UpkeepKind, UpkeepProposal
from knowledge.graph.operations import CreateEntities
from knowledge.models import Contradiction, InterviewQuestion
from knowledge.suggestions import queries, staging
from knowledge.suggestions.operations import StageCandidates
from memories import services
from memories.conversation.models import MergeProposal
from memories.models import MemoryRecord, SameWords
from memories.operations import Erase, MarkFeedback, Remember
from memories.writing import erasure, feedback
from memory_project.mcp.gateway import pins, registry
from memory_project.mcp.gateway.models import DeclaredUpstream, PinnedTool, PinState
from tests.knowledge.conftest import column, put

COUNT = 3
URN = "urn:li:dataset:(urn:li:dataPlatform:duckdb,inbox.table_{n},PROD)"
SHOPS = ("Aarau", "Bern", "Chur")


@dataclass(frozen=True)
class CaseSample:
    """How the cases of a kind are made for a person with the help of a colleague, and two verdicts on them."""

    make: Callable[[Caller, Caller], list[str]]  # returns the ids of the cases
    single: str  # a verdict on one case that can be undone
    many: str  # a verdict on several cases that can be undone
    given: Mapping[str, str] = field(default_factory=dict)  # the values that `single` takes
    key: str = ""  # the letter of `single`, if it needs no values
    is_counted: bool = True


def remember(caller: Caller, content: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": content, **fields})).record


def suggestions(person: Caller, colleague: Caller) -> list[str]:
    candidates = [
        {"kind": "correction", "text": f"No, the revenue of {shop} excludes all refunds.", "entities": []}
        for shop in SHOPS
    ]
    staging.stage(person, StageCandidates.read({"session": "inbox", "candidates": candidates}))
    return [case_id(row) for row in queries.waiting(person)]


def questions(person: Caller, colleague: Caller) -> list[str]:
    urns = [URN.format(n=n) for n in range(COUNT)]
    for urn in urns:  # without a description: workers close questions about entities of which nothing is missing
        put(urn, "schemaMetadata", {"fields": [column("id")]})
    with identity.service("debt"):
        rows = [
            InterviewQuestion.objects.create(
                owner=person.email, urn=urn, reason="no_description", asked_by=colleague.email, state="open"
            )
            for urn in urns
        ]
    return [case_id(row) for row in rows]


def contradictions(person: Caller, colleague: Caller) -> list[str]:
    found = []
    for shop in SHOPS:
        first = remember(person, f"The orders of {shop} are final after 6 hours.")
        second = remember(person, f"The orders of {shop} are final after 24 hours.")
        with identity.service("worker"):
            row = Contradiction.objects.create(
                first=first, second=second, first_key=first.content_key, second_key=second.content_key, reason="6, 24"
            )
        found.append(case_id(row))
    return found


def stale(person: Caller, colleague: Caller) -> list[str]:
    rows = [remember(person, f"The till of {shop} closes at seven o'clock.") for shop in SHOPS]
    for row in rows:
        services.mark_stale(system_caller(), record_id=row.pk, reason="inbox.tills was removed")
    return [case_id(row) for row in rows]


def verification(person: Caller, colleague: Caller) -> list[str]:
    rows = [remember(person, f"The stock of {shop} is counted every night.", visibility="everyone") for shop in SHOPS]
    for row in rows:
        feedback.mark(colleague, MarkFeedback.read({"record_id": row.pk, "verdict": "wrong", "note": "Weekly."}))
    return [case_id(row) for row in rows]


def merges(person: Caller, colleague: Caller) -> list[str]:
    found = []
    for shop in SHOPS:
        target = remember(person, f"Shipments of {shop} leave at noon.")
        record = remember(person, f"Shipments of {shop} leave at noon, on each day.")
        row = MergeProposal.objects.create(record=record, target=target, cosine=0.97, text=f"{record.content} Always.")
        found.append(case_id(row))
    return found


def upkeep(person: Caller, colleague: Caller) -> list[str]:
    found = []
    for shop in SHOPS:
        observations = [f"{shop} was renovated.", "It has two floors."]  # no worker would propose this one
        create_entities(person, CreateEntities(entities=[{"name": f"Shop {shop}", "observations": observations}]))
        entity = Entity.objects.get(name=f"Shop {shop}", graph__created_by=person.email)
        ends, stays = Observation.objects.filter(entity=entity).order_by("number")
        row = UpkeepProposal.objects.create(
            entity=entity, kind=UpkeepKind.DUPLICATE, score=0.98, ends=ends, stays=stays
        )
        found.append(case_id(row))
    return found


def same_words(person: Caller, colleague: Caller) -> list[str]:
    for shop in SHOPS:
        text = f"The safe of {shop} is behind the blue picture."
        remember(colleague, text)
        record = remember(person, text)
        erasure.erase(person, Erase.read({"record_id": record.pk, "confirm": True}))
    return [case_id(row) for row in SameWords.objects.filter(decision="open")]


def upstream_tools(person: Caller, colleague: Caller) -> list[str]:
    DeclaredUpstream.objects.create(name="inbox", declaration='url = "https://mcp.example.com/mcp"')
    registry.refreshed(at_once=True)
    offered = [{"name": f"tool_{n}", "description": f"Returns the rows of shop {n}."} for n in range(COUNT)]
    pins.record_listing("inbox", offered, reviews_all=True)
    with identity.service("gateway"):
        return [case_id(pin) for pin in PinnedTool.objects.filter(upstream="inbox", state=PinState.NEW)]


SAMPLES: dict[str, CaseSample] = {
    "suggestion": CaseSample(suggestions, "keep", "discard", key="a"),
    "question": CaseSample(questions, "skip", "unknown", key="s"),
    "contradiction": CaseSample(contradictions, "second", "neither", key="2"),
    "stale": CaseSample(stale, "verify", "forget", key="t"),
    "verification": CaseSample(verification, "wrong", "verify", key="w", is_counted=False),
    "merge": CaseSample(merges, "accept", "dismiss", key="a"),
    "upkeep": CaseSample(upkeep, "accept", "dismiss", key="a"),
    "same_words": CaseSample(same_words, "leave", "leave", key="l"),
    "upstream_tool": CaseSample(upstream_tools, "accept", "refuse", key="a"),
}
