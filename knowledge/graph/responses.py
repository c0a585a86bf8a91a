"""What the graph's tools answer; the keys are the contract's, integers are the numbers of rows within their graph."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from knowledge.graph.maintenance.duplicates import Duplicates
from knowledge.graph.maintenance.report import LISTED, Findings
from knowledge.graph.maintenance.splits import Analysis, parts_of
from knowledge.graph.models import Entity, Observation, Reflection, Relation
from knowledge.graph.queries import Node
from knowledge.graph.search.semantic import Match

PREVIEW = 80


class EntityShape(TypedDict):
    name: str
    entityType: str
    observations: list[str]
    id: int
    status: str
    urn: NotRequired[str]


class EntitiesShape(TypedDict):
    entities: list[EntityShape]


class ChangedShape(TypedDict):
    entity: EntityShape


class EachChangedShape(TypedDict):
    """Where the call named an entity for each list of texts."""

    results: list[dict[str, Any]]


class RelationsShape(TypedDict):
    relations: list[dict[str, Any]]
    errors: NotRequired[list[str]]


class DeletedShape(TypedDict):
    deleted: list[Any]
    errors: NotRequired[list[str]]


class GraphShape(TypedDict):
    entities: list[dict[str, Any]]
    relations: list[dict[str, Any]]
    next_cursor: NotRequired[str]
    omitted: NotRequired[int]


class SemanticShape(TypedDict):
    results: list[dict[str, Any]]
    note: NotRequired[str]


class MigratedShape(TypedDict):
    entities_imported: int
    relations_imported: int
    errors: int
    skipped: int


class AnalysisShape(TypedDict):
    analysis: dict[str, Any]


class ProposalShape(TypedDict):
    proposal: dict[str, Any] | None
    message: NotRequired[str]


class ResultShape(TypedDict):
    result: dict[str, Any]


class CandidatesShape(TypedDict):
    candidates: list[dict[str, Any]]


class DuplicatesShape(TypedDict):
    entity_name: str
    total_observations: int
    duplicate_pairs: list[dict[str, Any]]
    clusters: list[dict[str, Any]]


class ReportShape(TypedDict):
    summary: dict[str, int]
    split_candidates: list[dict[str, Any]]
    flagged_observations: list[dict[str, Any]]
    stale_entities: list[dict[str, Any]]
    large_entities: list[dict[str, Any]]


class EndedShape(TypedDict):
    result: str
    relation: dict[str, Any]
    inverse_expired_id: NotRequired[int]


class ReflectionsShape(TypedDict):
    results: list[dict[str, Any]]
    note: NotRequired[str]


def entity_shape(node: Node) -> EntityShape:
    entity = node.entity
    shape: EntityShape = {
        "name": entity.name,
        "entityType": entity.entity_type,
        "observations": [observation.text for observation in node.observations],
        "id": entity.number,
        "status": entity.status,
    }
    if entity.urn:
        shape["urn"] = entity.urn
    return shape


def opened_shape(node: Node, relations: list[Relation]) -> dict[str, Any]:
    """An entity in full: observations as texts, as the contract has them, and with their details beside."""
    shape: dict[str, Any] = dict(entity_shape(node))
    shape["details"] = [observation_shape(observation) for observation in node.observations]
    around = [r for r in relations if node.entity.pk in (r.source_id, r.target_id)]
    shape["relations"] = [relation_of(node.entity, relation) for relation in around]
    if node.reflections:
        shape["reflections"] = [reflection_shape(reflection) for reflection in node.reflections]
    return shape


def observation_shape(observation: Observation) -> dict[str, Any]:
    shape: dict[str, Any] = {"id": observation.number, "kind": observation.kind}
    if observation.similarity_flag:
        shape["similarity_flag"] = 1
    if observation.supersedes:
        shape["supersedes"] = observation.supersedes
    if observation.superseded_at:
        shape["superseded_at"] = observation.superseded_at.isoformat()
    return shape


def relation_shape(relation: Relation) -> dict[str, Any]:
    shape = {"from": relation.source.name, "to": relation.target.name, "relationType": relation.relation_type}
    context = {"context": relation.context} if relation.context else {}
    ended = {"ended_at": relation.ended_at.isoformat()} if relation.ended_at else {}
    return {"id": relation.number, **shape, **context, **ended}


def relation_of(entity: Entity, relation: Relation) -> dict[str, Any]:
    outward = relation.source_id == entity.pk
    end = relation.target if outward else relation.source
    return {
        "id": relation.number,
        "relation_type": relation.relation_type,
        "target_name": end.name,
        "direction": "from" if outward else "to",
    }


def match_shape(match: Match) -> dict[str, Any]:
    shape: dict[str, Any] = dict(entity_shape(match.node))
    shape["limbic_score"] = round(match.score.score, 4)
    shape["scoring"] = {
        "importance": round(match.score.importance, 4),
        "temporal_factor": round(match.score.temporal, 4),
        "cooc_boost": round(match.score.pairs, 4),
    }
    if match.distance is not None:
        shape["distance"] = round(match.distance, 4)
    if match.rrf is not None:
        shape["rrf_score"] = round(match.rrf, 6)
    return shape


def analysis_shape(analysis: Analysis) -> dict[str, Any]:
    return {
        "entity_name": analysis.entity.name,
        "entity_type": analysis.entity.entity_type,
        "observation_count": analysis.count,
        "threshold": analysis.threshold,
        "needs_split": analysis.needs_split,
        "topics": {name: [row.text for row in rows] for name, rows in analysis.topics.items()},
        "split_score": round(analysis.score, 2),
    }


def proposal_shape(analysis: Analysis, relation: str, inverse: str) -> dict[str, Any]:
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


def duplicates_shape(result: Duplicates) -> DuplicatesShape:
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


def report_shape(result: Findings, days_since: Any) -> ReportShape:
    """Each list up to LISTED; the summary counts all."""
    return {
        "summary": {
            "total_entities": result.entities,
            "total_observations": result.observations,
            "split_candidates_count": len(result.splits),
            "flagged_observations_count": len(result.flagged),
            "stale_entities_count": len(result.idle),
            "large_entities_count": len(result.large),
        },
        "split_candidates": [
            {name: value for name, value in analysis_shape(a).items() if name not in ("topics", "needs_split")}
            for a in result.splits[:LISTED]
        ],
        "flagged_observations": [
            {
                "entity_name": row.entity.name,
                "observation_text": row.text[:PREVIEW],
                "similarity_flag": 1,
                "id": row.number,
            }
            for row in result.flagged[:LISTED]
        ],
        "stale_entities": [
            {
                "entity_name": entity.name,
                "entity_type": entity.entity_type,
                "last_accessed_days_ago": days_since(entity.last_access or entity.created_at),
                "access_count": entity.access_count,
                "observation_count": entity.n,  # type: ignore[attr-defined]  # annotated by the report
            }
            for entity in result.idle[:LISTED]
        ],
        "large_entities": [
            {"entity_name": e.name, "entity_type": e.entity_type, "observation_count": e.n}  # type: ignore[attr-defined]
            for e in result.large[:LISTED]
        ],
    }


def reflection_shape(reflection: Reflection) -> dict[str, Any]:
    target = reflection.entity or reflection.relation
    return {
        "id": reflection.number,
        "target_type": reflection.target_type,
        "target_id": target.number if target else None,
        "author": reflection.author,
        "content": reflection.content,
        "mood": reflection.mood or None,
        "created_at": f"{reflection.created_at:%Y-%m-%d %H:%M:%S}",
    }
