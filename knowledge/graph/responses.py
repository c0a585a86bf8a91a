"""Responses of the graph tools. The tools' contract fixes the keys. Integer ids are row numbers within the graph."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from knowledge.graph.maintenance.duplicates import Duplicates
from knowledge.graph.maintenance.report import MAX_LISTED, Findings
from knowledge.graph.maintenance.splits import Analysis, parts_of
from knowledge.graph.models import Observation, Reflection, Relation
from knowledge.graph.queries import Node
from knowledge.graph.search.semantic import EntityMatch

PREVIEW = 80  # maximum length of an observation in the report, in characters


class EntityResponse(TypedDict):
    name: str
    entityType: str
    observations: list[str]
    id: int
    status: str
    urn: NotRequired[str]
    omitted_observations: NotRequired[int]


class EntitiesResponse(TypedDict):
    entities: list[EntityResponse]


class ChangedResponse(TypedDict):
    entity: EntityResponse
    errors: NotRequired[list[str]]


class EachChangedResponse(TypedDict):
    """The response to a call with objects that each name an entity and its texts."""

    results: list[dict[str, Any]]
    errors: NotRequired[list[str]]


class RelationsResponse(TypedDict):
    relations: list[dict[str, Any]]
    errors: NotRequired[list[str]]


class DeletedResponse(TypedDict):
    deleted: list[Any]
    errors: NotRequired[list[str]]


class GraphResponse(TypedDict):
    entities: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    next_cursor: NotRequired[str]
    omitted: NotRequired[int]


class SemanticResponse(TypedDict):
    results: list[dict[str, Any]]
    note: NotRequired[str]


class MigratedResponse(TypedDict):
    entities_imported: int
    relations_imported: int
    errors: int
    skipped: int
    problems: NotRequired[list[str]]


class AnalysisResponse(TypedDict):
    analysis: dict[str, Any]


class ProposalResponse(TypedDict):
    proposal: dict[str, Any] | None
    message: NotRequired[str]


class ResultResponse(TypedDict):
    result: dict[str, Any]


class CandidatesResponse(TypedDict):
    candidates: list[dict[str, Any]]


class DuplicatesResponse(TypedDict):
    entity_name: str
    total_observations: int
    duplicate_pairs: list[dict[str, Any]]
    clusters: list[dict[str, Any]]


class ReportResponse(TypedDict):
    summary: dict[str, int]
    split_candidates: list[dict[str, Any]]
    flagged_observations: list[dict[str, Any]]
    stale_entities: list[dict[str, Any]]
    large_entities: list[dict[str, Any]]
    same_names: NotRequired[list[dict[str, Any]]]


class EndedResponse(TypedDict):
    result: str
    relation: dict[str, Any]
    inverse_expired_id: NotRequired[int]


class ReflectionsResponse(TypedDict):
    results: list[dict[str, Any]]
    note: NotRequired[str]


def entity_response(node: Node) -> EntityResponse:
    entity = node.entity
    shown = node.observations if node.selected is None else node.selected
    response: EntityResponse = {
        "name": entity.name,
        "entityType": entity.entity_type,
        "observations": [observation.text for observation in shown],
        "id": entity.number,
        "status": entity.status,
    }
    if entity.urn:
        response["urn"] = entity.urn
    if len(shown) < len(node.observations):
        response["omitted_observations"] = len(node.observations) - len(shown)
    return response


def opened_response(node: Node) -> dict[str, Any]:
    response: dict[str, Any] = dict(entity_response(node))
    # The contract requires plain texts as observations, so their details are under another key.
    response["details"] = [observation_response(observation) for observation in node.observations]
    if node.reflections:
        response["reflections"] = [reflection_response(reflection) for reflection in node.reflections]
    return response


def observation_response(observation: Observation) -> dict[str, Any]:
    response: dict[str, Any] = {"id": observation.number, "kind": observation.kind}
    if observation.similarity_flag:
        response["similarity_flag"] = 1
    if observation.supersedes:
        response["supersedes"] = observation.supersedes
    if observation.superseded_at:
        response["superseded_at"] = observation.superseded_at.isoformat()
    return response


def relation_response(relation: Relation) -> dict[str, Any]:
    response = {"from": relation.source.name, "to": relation.target.name, "relationType": relation.relation_type}
    context = {"context": relation.context} if relation.context else {}
    ended = {"ended_at": relation.ended_at.isoformat()} if relation.ended_at else {}
    return {"id": relation.number, **response, **context, **ended}


def match_response(match: EntityMatch) -> dict[str, Any]:
    response: dict[str, Any] = dict(entity_response(match.node))
    response["limbic_score"] = round(match.score.score, 4)
    response["scoring"] = {
        "importance": round(match.score.importance, 4),
        "temporal_factor": round(match.score.temporal, 4),
        "cooc_boost": round(match.score.pairs, 4),
    }
    if match.distance is not None:
        response["distance"] = round(match.distance, 4)
    if match.rrf is not None:
        response["rrf_score"] = round(match.rrf, 6)
    return response


def analysis_response(analysis: Analysis) -> dict[str, Any]:
    return {
        "entity_name": analysis.entity.name,
        "entity_type": analysis.entity.entity_type,
        "observation_count": analysis.count,
        "threshold": analysis.threshold,
        "needs_split": analysis.needs_split,
        "topics": {name: [row.text for row in rows] for name, rows in analysis.topics.items()},
        "split_score": round(analysis.score, 2),
    }


def proposal_response(analysis: Analysis, relation: str, inverse: str) -> dict[str, Any]:
    entity = analysis.entity
    parts = parts_of(analysis)
    relations: list[dict[str, str]] = []
    for part in parts:
        relations.append({"from": entity.name, "to": part["name"], "type": relation})
        if inverse:
            relations.append({"from": part["name"], "to": entity.name, "type": inverse})
    return {
        "original_entity": {"name": entity.name, "entity_type": entity.entity_type},
        "suggested_splits": parts,
        "relations_to_create": relations,
        "analysis": {
            "observation_count": analysis.count,
            "threshold": analysis.threshold,
            "split_score": round(analysis.score, 2),
            "num_topics": len(analysis.topics),
        },
    }


def duplicates_response(result: Duplicates) -> DuplicatesResponse:
    return {
        "entity_name": result.entity.name,
        "total_observations": result.total,
        "duplicate_pairs": [
            {
                "obs_text_a": pair.first.text,
                "obs_text_b": pair.second.text,
                "similarity_score": round(pair.score, 4),
                "match_type": pair.match_type,
            }
            for pair in result.pairs
        ],
        "clusters": [
            {"size": len(rows), "observations": [{"observation_id": row.number, "content": row.text} for row in rows]}
            for rows in result.clusters
        ],
    }


def report_response(result: Findings, days_since: Any) -> ReportResponse:
    """Return the report. Each list has at most MAX_LISTED entries. The summary has the full counts."""
    response: ReportResponse = {
        "summary": {
            "total_entities": result.entities,
            "total_observations": result.observations,
            "split_candidates_count": len(result.splits),
            "flagged_observations_count": len(result.flagged),
            "stale_entities_count": len(result.idle),
            "large_entities_count": len(result.large),
        },
        "split_candidates": [
            {name: value for name, value in analysis_response(a).items() if name not in ("topics", "needs_split")}
            for a in result.splits[:MAX_LISTED]
        ],
        "flagged_observations": [
            {
                "entity_name": row.entity.name,
                "observation_text": row.text[:PREVIEW],
                "similarity_flag": 1,
                "id": row.number,
            }
            for row in result.flagged[:MAX_LISTED]
        ],
        "stale_entities": [
            {
                "entity_name": entity.name,
                "entity_type": entity.entity_type,
                "last_accessed_days_ago": days_since(entity.last_access or entity.created_at),
                "access_count": entity.access_count,
                "observation_count": entity.observation_count,  # type: ignore[attr-defined]  # annotated by the report
            }
            for entity in result.idle[:MAX_LISTED]
        ],
        "large_entities": [
            {
                "entity_name": entity.name,
                "entity_type": entity.entity_type,
                "observation_count": entity.observation_count,  # type: ignore[attr-defined]  # annotated by the report
            }
            for entity in result.large[:MAX_LISTED]
        ],
    }
    if result.collisions:
        # The spellings look alike, so the ids tell the entities apart.
        response["same_names"] = [
            {"names": [entity.name for entity in group], "ids": [entity.number for entity in group]}
            for group in result.collisions[:MAX_LISTED]
        ]
    return response


def reflection_response(reflection: Reflection) -> dict[str, Any]:
    target = reflection.entity or reflection.relation
    response = {
        "id": reflection.number,
        "target_type": reflection.target_type,
        "target_id": target.number if target else None,
        "author": reflection.author or reflection.created_by,
        "content": reflection.content,
        "mood": reflection.mood or None,
        "created_at": f"{reflection.created_at:%Y-%m-%d %H:%M:%S}",
    }
    # Anybody can be named as the author, so the writer is told, too.
    is_other = reflection.created_by not in ("", response["author"])
    return {**response, "written_by": reflection.created_by} if is_other else response
