from __future__ import annotations

from knowledge.models.assignment_rule import AssignmentRule
from knowledge.models.baseline import Due, EntityBaseline
from knowledge.models.catalog import (
    CatalogAspect,
    CatalogCursor,
    CatalogEntity,
    CatalogPassage,
    CatalogText,
    LineageEdge,
)
from knowledge.models.changeset import Change, ChangeOutcome, Changeset, ChangesetState
from knowledge.models.debt import DebtReason, EntityDebt, EntityUse, InterviewQuestion, QuestionState
from knowledge.models.decision import Decision, DecisionKind
from knowledge.models.entity_state import EntityState
from knowledge.models.failed_call import FailedCall
from knowledge.models.insight import Insight, InsightState
from knowledge.models.suggestion import Suggestion, SuggestionKind, SuggestionSource, SuggestionState

__all__ = [
    "AssignmentRule",
    "CatalogAspect",
    "CatalogCursor",
    "CatalogEntity",
    "CatalogPassage",
    "CatalogText",
    "Change",
    "ChangeOutcome",
    "Changeset",
    "ChangesetState",
    "DebtReason",
    "Decision",
    "DecisionKind",
    "Due",
    "EntityBaseline",
    "EntityDebt",
    "EntityState",
    "EntityUse",
    "FailedCall",
    "Insight",
    "InsightState",
    "InterviewQuestion",
    "LineageEdge",
    "QuestionState",
    "Suggestion",
    "SuggestionKind",
    "SuggestionSource",
    "SuggestionState",
]
