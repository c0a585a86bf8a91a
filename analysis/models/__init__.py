from __future__ import annotations

from analysis.models.action import Action, ActionItem, ActionState, Outcome
from analysis.models.check import CheckState, Expectation, MemoryCheck
from analysis.models.session import Finding, FindingPassage, Ingest, IngestedRecord, IngestState, Session
from analysis.models.source import DeclaredSource, SourceCheck

__all__ = [
    "Action",
    "ActionItem",
    "ActionState",
    "CheckState",
    "DeclaredSource",
    "Expectation",
    "Finding",
    "FindingPassage",
    "Ingest",
    "IngestState",
    "IngestedRecord",
    "MemoryCheck",
    "Outcome",
    "Session",
    "SourceCheck",
]
