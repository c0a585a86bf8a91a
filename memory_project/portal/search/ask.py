"""The page Ask: what is known about a question, why each memory was found, and what an agent gets for it.

The page runs the operation of the tool memory_recall once. Its hits are shown to the person, and its response, as the
MCP server delivers it, stands beside them. Reading the page is no use of a memory: it leaves no impression, no access
count and no audit event.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from foundation.operations.errors import Invalid
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller, caller_from_request
from foundation.tools.answers import DeliveredAnswer, deliver
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable, EntitySummary
from knowledge.catalog.search import search
from knowledge.insights import queries as insights
from knowledge.models import Insight
from memories import mcp_tools
from memories.operations import RecallMemories
from memories.rendering import recall_answer
from memories.retrieval.matched_words import Piece, mark_words
from memories.retrieval.recall import Recall, RecallHit, recall
from memories.writing.verification import last_verifications
from memory_project.accounts.names import name_of
from memory_project.portal import onboarding
from memory_project.portal.search import reasons
from memory_project.web.error_labels import message_with_label

MAX_ENTITIES = 20  # maximum number of catalog search results, of which documents are listed on their own
BYTES_PER_TOKEN = 4  # an average of English text; every model counts in its own way
ALL_TOOLSETS = "all"


@dataclass(frozen=True)
class Found:
    """A recalled memory, as the page shows it."""

    hit: RecallHit
    pieces: Sequence[Piece]
    author: str
    insight: Insight | None
    why: Sequence[str]
    trust: Sequence[str]


@dataclass(frozen=True)
class AgentView:
    """What an agent of the person gets for the question, or why it gets nothing."""

    persona: str
    call: str
    delivery: DeliveredAnswer | None = None
    data: str = ""
    tokens: int = 0
    refusal: str = ""
    note: str = ""
    shortened: int = 0  # number of memories of which only the best passage is returned


@dataclass(frozen=True)
class CatalogMatches:
    entities: Sequence[EntitySummary] = ()
    documents: Sequence[EntitySummary] = ()
    note: str = ""
    is_away: bool = False


@dataclass(frozen=True)
class AskAnswer:
    recall: Recall
    memories: Sequence[Found]
    catalog: CatalogMatches
    agent: AgentView
    left_out: Sequence[reasons.LeftOut]


@require_safe
@login_required
def ask(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    q, about, persona = (UNSTORABLE.sub("", request.GET.get(name, "")).strip() for name in ("q", "about", "persona"))
    agent = replace(_agent(request, caller, persona), connection="")
    context: dict[str, Any] = {
        "q": q,
        "about": about,
        "persona": agent.persona,
        "personas": _personas(caller),
    }
    if q or about:
        try:
            operation = RecallMemories.read({"query": q, "entity_urns": [about] if about else []})
        except Invalid as error:
            context["error"] = message_with_label(error)
            return render(request, "portal/ask.html", context, status=400)
        if q and not request.session.get(onboarding.SEARCHED):
            request.session[onboarding.SEARCHED] = True
        context["answer"] = _answer(agent, operation)
    return render(request, "portal/ask.html", context)


def _agent(request: HttpRequest, caller: Caller, persona: str) -> Caller:
    """Return the caller that an agent of this person would be. Raises Forbidden if the persona is not theirs."""
    if persona in ("", caller.persona):
        return replace(caller, channel="mcp")
    assert request.user.is_authenticated
    return build_caller(request.user, channel="mcp", persona=persona)


def _personas(caller: Caller) -> list[str]:
    if caller.is_admin:
        return sorted(Persona.objects.values_list("name", flat=True))
    return sorted(caller.personas)


def _answer(agent: Caller, operation: RecallMemories) -> AskAnswer:
    result = recall(agent, operation)
    return AskAnswer(
        recall=result,
        memories=_found(agent, result),
        catalog=_catalog_matches(operation.query),
        agent=_agent_view(agent, operation, result),
        left_out=reasons.left_out(result),
    )


def _found(caller: Caller, result: Recall) -> list[Found]:
    ids = [hit.record.pk for hit in result.hits]
    if not ids:
        return []
    known_insights = {insight.pk: insight for insight in insights.by_ids(caller, ids)}
    verified = [hit.record.pk for hit in result.hits if hit.record.last_verified_at]
    verifications = last_verifications(verified) if verified else {}
    marked = mark_words([(hit.quotation, hit.record.language) for hit in result.hits], result.terms)
    return [
        Found(
            hit=hit,
            pieces=pieces,
            author=name_of(hit.record.created_by),
            insight=known_insights.get(hit.record.pk),
            why=reasons.why_found(hit, result, pieces),
            trust=reasons.trust(hit.record, verifications.get(hit.record.pk), result.hints.get(hit.record.pk, "")),
        )
        for hit, pieces in zip(result.hits, marked, strict=True)
    ]


def _catalog_matches(query: str) -> CatalogMatches:
    if not query:
        return CatalogMatches()
    try:
        catalog = get_readable_catalog()
        found = search(catalog, query, limit=MAX_ENTITIES)
        note = copy_note(catalog) or found.note
    except (CatalogUnavailable, CatalogRefused) as error:
        return CatalogMatches(note=error.message, is_away=True)
    documents = [match for match in found.entities if match.entity_type == "document"]
    return CatalogMatches([match for match in found.entities if match not in documents], documents, note)


def _agent_view(agent: Caller, operation: RecallMemories, result: Recall) -> AgentView:
    tool = mcp_tools.memory_recall
    arguments = {"query": operation.query, "entity_urns": operation.entity_urns}
    given = json.dumps({name: value for name, value in arguments.items() if value}, ensure_ascii=False)
    call = f"{tool.name} {given}"
    if not agent.may_use(tool.name):
        refusal = gettext("Agents with the persona “%(persona)s” may not use %(tool)s.")
        return AgentView(agent.persona, call, refusal=refusal % {"persona": agent.persona, "tool": tool.name})
    delivery = deliver(recall_answer(result), quotes=tool.quotes)
    note = ""
    if agent.toolsets and not {tool.toolset, *tool.further_toolsets, ALL_TOOLSETS}.intersection(agent.toolsets):
        note = gettext("%(tool)s is not among the tools that agents with the persona “%(persona)s” get by default.")
        note %= {"persona": agent.persona, "tool": tool.name}
    size = sum(len(part.encode()) for part in (delivery.text, *delivery.marks))
    return AgentView(
        persona=agent.persona,
        call=call,
        delivery=delivery,
        data=json.dumps(delivery.data, ensure_ascii=False, indent=2),
        tokens=-(-size // BYTES_PER_TOKEN),
        note=note,
        shortened=sum(bool(memory.get("cut")) for memory in delivery.data["memories"]),
    )
