from __future__ import annotations

from knowledge.models.approval import ApprovalRule, ChangesetApproval, ChangesetVerdict
from knowledge.models.assignment_rule import AssignmentRule
from knowledge.models.baseline import Due, EntityBaseline
from knowledge.models.catalog import (
    CatalogAspect,
    CatalogCursor,
    CatalogEntity,
    CatalogPassage,
    CatalogText,
    ColumnEdge,
    LineageEdge,
)
from knowledge.models.caveat_waiver import CaveatWaiver
from knowledge.models.changeset import Change, ChangeOutcome, Changeset, ChangesetState
from knowledge.models.contradiction import (
    Contradiction,
    ContradictionScan,
    PairVerdict,
    Settlement,
    SettlementState,
)
from knowledge.models.debt import DebtReason, EntityDebt, EntityUse, InterviewQuestion, QuestionState
from knowledge.models.decision import Decision, DecisionKind
from knowledge.models.entity_state import EntityState
from knowledge.models.failed_call import FailedCall
from knowledge.models.insight import Insight, InsightState
from knowledge.models.suggestion import Suggestion, SuggestionKind, SuggestionSource, SuggestionState

__all__ = [
    "ApprovalRule",
    "AssignmentRule",
    "CatalogAspect",
    "CatalogCursor",
    "CatalogEntity",
    "CatalogPassage",
    "CatalogText",
    "CaveatWaiver",
    "Change",
    "ChangeOutcome",
    "Changeset",
    "ChangesetApproval",
    "ChangesetState",
    "ChangesetVerdict",
    "ColumnEdge",
    "Contradiction",
    "ContradictionScan",
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
    "PairVerdict",
    "QuestionState",
    "Settlement",
    "SettlementState",
    "Suggestion",
    "SuggestionKind",
    "SuggestionSource",
    "SuggestionState",
]
