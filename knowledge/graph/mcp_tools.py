"""MCP tools of the knowledge graph: the nineteen of the contract, and read_graph."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from foundation.tools.declaration import Hints, tool
from knowledge.graph import entities, jsonl, operations, queries, relations, responses
from knowledge.graph.maintenance import duplicates, report, splits
from knowledge.graph.responses import (
    AnalysisResponse,
    CandidatesResponse,
    ChangedResponse,
    DeletedResponse,
    DuplicatesResponse,
    EachChangedResponse,
    EndedResponse,
    EntitiesResponse,
    GraphResponse,
    MigratedResponse,
    ProposalResponse,
    ReflectionsResponse,
    RelationsResponse,
    ReportResponse,
    ResultResponse,
    SemanticResponse,
)
from knowledge.graph.search import reflections, semantic

READS = Hints(read_only=True, idempotent=True)
DELETES = Hints(destructive=True, idempotent=True)


@tool(toolset="graph", title="Create entities", hints=Hints(idempotent=True))
def create_entities(caller: Caller, operation: operations.CreateEntities) -> EntitiesResponse:
    """Create entities of the knowledge graph. If one exists, only its new observations are added."""
    change = entities.create_entities(caller, operation)
    nodes = queries.changed_nodes(change.entities, change.added)
    return {"entities": [responses.entity_response(node) for node in nodes]}


@tool(toolset="graph", title="Create relations", hints=Hints(idempotent=True))
def create_relations(caller: Caller, operation: operations.CreateRelations) -> RelationsResponse:
    """Create relations between existing entities. Write the type in active voice, such as `uses`."""
    change = relations.create_relations(caller, operation)
    response: RelationsResponse = {"relations": change.relations}
    return {**response, "errors": change.errors} if change.errors else response


@tool(toolset="graph", title="Add observations", hints=Hints(idempotent=True))
def add_observations(caller: Caller, operation: operations.AddObservations) -> ChangedResponse | EachChangedResponse:
    """Add observations to an existing entity. Those it already has are left out."""
    change = entities.add_observations(caller, operation)
    if operation.name:
        return _entity(change)
    results = [{"entityName": name, "addedObservations": texts} for name, texts in change.added.items()]
    return {"results": results}


@tool(toolset="graph", title="Delete entities", hints=DELETES, quotes=False)
def delete_entities(caller: Caller, operation: operations.DeleteEntities) -> DeletedResponse:
    """Delete entities with their observations and relations."""
    change = entities.delete_entities(caller, operation)
    response: DeletedResponse = {"deleted": change.deleted}
    return {**response, "errors": change.errors} if change.errors else response


@tool(toolset="graph", title="Delete observations", hints=DELETES, quotes=False)
def delete_observations(
    caller: Caller, operation: operations.DeleteObservations
) -> ChangedResponse | EachChangedResponse:
    """Delete observations of an entity by their exact text."""
    change = entities.delete_observations(caller, operation)
    response: ChangedResponse | EachChangedResponse
    if operation.name:
        response = _entity(change)
    else:
        response = {"results": [{"entityName": entity.name} for entity in change.entities]}
    if change.errors:
        response["errors"] = change.errors
    return response


@tool(toolset="graph", title="Delete relations", hints=DELETES, quotes=False)
def delete_relations(caller: Caller, operation: operations.DeleteRelations) -> DeletedResponse:
    """Delete relations. To keep that one existed, use end_relation."""
    change = relations.delete_relations(caller, operation)
    response: DeletedResponse = {"deleted": change.deleted}
    return {**response, "errors": change.errors} if change.errors else response


@tool(toolset="graph", title="Read graph", hints=READS)
def read_graph(caller: Caller, operation: operations.ReadGraph) -> GraphResponse:
    """Read the whole graph, page by page."""
    return _page(queries.read_graph(caller, operation))


@tool(toolset="graph", title="Search nodes", hints=READS)
def search_nodes(caller: Caller, operation: operations.SearchNodes) -> GraphResponse:
    """Find entities whose name, type or observations contain a text. Long entities return only what matches."""
    return _page(queries.search_nodes(caller, operation))


@tool(toolset="graph", title="Open nodes", hints=READS)
def open_nodes(caller: Caller, operation: operations.OpenNodes) -> GraphResponse:
    """Read entities by exact name, with observations, relations and reflections."""
    page = queries.open_nodes(caller, operation)
    nodes, omitted = fit_items([responses.opened_response(node) for node in page.nodes])
    response: GraphResponse = {"entities": nodes, "relations": [responses.relation_response(r) for r in page.relations]}
    return {**response, "omitted": omitted} if omitted else response


@tool(toolset="graph", title="Search by meaning", hints=READS)
def search_semantic(caller: Caller, operation: operations.SearchSemantic) -> SemanticResponse:
    """Find entities by meaning. Entities that are read often and lately rank higher."""
    result = semantic.search_semantic(caller, operation)
    response: SemanticResponse = {"results": [responses.match_response(match) for match in result.matches]}
    return {**response, "note": result.note} if result.note else response


@tool(toolset="graph", title="Import a memory file", hints=Hints(idempotent=True))
def migrate(caller: Caller, operation: operations.Migrate) -> MigratedResponse:
    """Import a JSONL file of Anthropic's memory server. What was imported before is skipped."""
    imported = jsonl.migrate(caller, operation)
    response: MigratedResponse = {
        "entities_imported": imported.entities,
        "relations_imported": imported.relations,
        "errors": imported.errors,
        "skipped": imported.skipped,
    }
    problems = imported.problems[: jsonl.MAX_PROBLEMS]
    if more := len(imported.problems) - len(problems):
        problems.append(f"and {more:,} more")
    return {**response, "problems": problems} if problems else response


@tool(toolset="graph", title="Analyze a split", hints=READS)
def analyze_entity_split(caller: Caller, operation: operations.AnalyzeSplit) -> AnalysisResponse:
    """Tell whether an entity has too many observations on different topics and should be split."""
    return {"analysis": responses.analysis_response(splits.analyze(caller, operation))}


@tool(toolset="graph", title="Propose a split", hints=READS)
def propose_entity_split(caller: Caller, operation: operations.ProposeSplit) -> ProposalResponse:
    """Propose how to split an entity by topic, for execute_entity_split. Null if it needs no split."""
    analysis = splits.propose(caller, operation)
    if analysis is None:
        return {"proposal": None, "message": "Entity does not need splitting"}
    return {
        "proposal": responses.proposal_response(
            analysis, splits.SPLIT_RELATION, settings.GRAPH_INVERSES.get(splits.SPLIT_RELATION, "")
        )
    }


@tool(toolset="graph", title="Execute a split")
def execute_entity_split(caller: Caller, operation: operations.ExecuteSplit) -> ResultResponse:
    """Move observations of an entity to new entities, as the user approved."""
    return {"result": splits.execute(caller, operation)}


@tool(toolset="graph", title="Find entities to split", hints=READS)
def find_split_candidates(caller: Caller, operation: operations.FindSplits) -> CandidatesResponse:
    """Find all entities that should be split."""
    analyses = splits.candidates(caller, operation)
    return {"candidates": [responses.analysis_response(analysis) for analysis in analyses]}


@tool(toolset="graph", title="Find duplicate observations", hints=READS)
def find_duplicate_observations(caller: Caller, operation: operations.FindDuplicates) -> DuplicatesResponse:
    """Find observations of an entity that say the same."""
    return responses.duplicates_response(duplicates.find_duplicates(caller, operation))


@tool(toolset="graph", title="Consolidation report", hints=READS)
def consolidation_report(caller: Caller, operation: operations.Report) -> ReportResponse:
    """Report what to tidy up: entities to split, duplicates, unused and very large entities."""
    return responses.report_response(report.report(caller, operation), _days_since)


@tool(toolset="graph", title="End a relation", hints=Hints(idempotent=True), quotes=False)
def end_relation(caller: Caller, operation: operations.EndRelation) -> EndedResponse:
    """End a relation and its inverse, and keep on record that they existed."""
    relation, inverse = relations.end_relation(caller, operation)
    message = f"Relation {relation.number} expired successfully"
    response: EndedResponse = {"result": message, "relation": responses.relation_response(relation)}
    return {**response, "inverse_expired_id": inverse.number} if inverse else response


@tool(toolset="graph", title="Add a reflection")
def add_reflection(caller: Caller, operation: operations.AddReflection) -> ResultResponse:
    """Add a longer text about an entity, a relation, a session or the whole graph."""
    return {"result": responses.reflection_response(reflections.add_reflection(caller, operation))}


@tool(toolset="graph", title="Search reflections", hints=READS)
def search_reflections(caller: Caller, operation: operations.SearchReflections) -> ReflectionsResponse:
    """Find texts of add_reflection by meaning and words."""
    matches, note = reflections.search_reflections(caller, operation)
    results = [responses.reflection_response(m.reflection) | {"score": round(m.score, 4)} for m in matches]
    response: ReflectionsResponse = {"results": results}
    return {**response, "note": note} if note else response


def _entity(change: entities.GraphChange) -> ChangedResponse:
    (node,) = queries.changed_nodes(change.entities[:1], change.added)
    return {"entity": responses.entity_response(node)}


def _page(page: queries.GraphPage) -> GraphResponse:
    entities: list[dict[str, Any]] = [dict(responses.entity_response(node)) for node in page.nodes]
    nodes, omitted = fit_items(entities)
    response: GraphResponse = {"entities": nodes, "relations": [responses.relation_response(r) for r in page.relations]}
    if omitted:
        response |= {"omitted": omitted, "next_cursor": str(nodes[-1]["id"]) if nodes else ""}
    elif page.next_cursor:
        response["next_cursor"] = page.next_cursor
    return response


def _days_since(moment: datetime) -> int:
    return (timezone.now() - moment).days


TOOLS = [
    create_entities, create_relations, add_observations, delete_entities, delete_observations, delete_relations,
    read_graph, search_nodes, open_nodes, search_semantic, migrate, analyze_entity_split,
    replace(propose_entity_split, aliases=("propose_entity_split_tool",)),
    replace(execute_entity_split, aliases=("execute_entity_split_tool",)),
    find_split_candidates, find_duplicate_observations, consolidation_report, end_relation, add_reflection,
    search_reflections,
]  # fmt: skip
