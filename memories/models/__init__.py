from __future__ import annotations

from foundation.database.models import Lease
from foundation.people.models import Persona, PersonaMembership
from foundation.work.models import Job
from memories.models.batch import Batch
from memories.models.citation import Citation, CitingDocument, Outdated
from memories.models.feedback import Feedback, Verdict
from memories.models.hand_over import HandOver
from memories.models.impression import Impression
from memories.models.index_job import IndexJob, Lexeme, LexemeChange
from memories.models.passage import Passage
from memories.models.proxies import ConversationMemory, Correction, StaleMemory
from memories.models.purpose import Purpose
from memories.models.quotation import Quotation, SameWords, SameWordsDecision
from memories.models.record import (
    IN_USE,
    Attachment,
    Category,
    Confidence,
    Dimension,
    MemoryRecord,
    Source,
    Status,
    Tier,
    Visibility,
)
from memories.models.report import DOUBTS, Report, ReportVerdict
from memories.models.revision import MemoryRevision, Tombstone
from memories.models.validity import Period
from memories.models.verification import Verification

__all__ = [
    "DOUBTS",
    "IN_USE",
    "Attachment",
    "Batch",
    "Category",
    "Citation",
    "CitingDocument",
    "Confidence",
    "ConversationMemory",
    "Correction",
    "Dimension",
    "Feedback",
    "HandOver",
    "Impression",
    "IndexJob",
    "Job",
    "Lease",
    "Lexeme",
    "LexemeChange",
    "MemoryRecord",
    "MemoryRevision",
    "Outdated",
    "Passage",
    "Period",
    "Persona",
    "PersonaMembership",
    "Purpose",
    "Quotation",
    "Report",
    "ReportVerdict",
    "SameWords",
    "SameWordsDecision",
    "Source",
    "StaleMemory",
    "Status",
    "Tier",
    "Tombstone",
    "Verdict",
    "Verification",
    "Visibility",
]
