"""The kinds of rows of analyses that people take along: the findings, and the analyses as far as they have findings.

Ingested records are copies of another system's data, and are left out. So are the summaries of their pages.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from analysis.models import Finding, Session
from memories.portability import Kind, Parent

ANALYSIS = Kind(
    name="analysis",
    model=Session,
    columns=("owner", "analysis_id", "persona", "created_at", "last_used_at"),
    key=("owner", "analysis_id"),
    owner="owner",
    only=Exists(Finding.objects.filter(session=OuterRef("pk"), page_key="")),
    counters=frozenset({"last_used_at"}),
)

FINDING = Kind(
    name="finding",
    model=Finding,
    columns=(
        "id", "owner", "analysis_id", "model", "finding", "category", "metadata", "page_key", "persistent",
        "expires_at", "created_at",
    ),
    owner="session__owner",
    only=Q(page_key=""),
    lookups={"owner": "session__owner", "analysis_id": "session__analysis_id"},
    parents=(Parent("session_id", Session, "owner", by={"owner": "owner", "analysis_id": "analysis_id"}),),
    index="finding",
)  # fmt: skip

KINDS = (ANALYSIS, FINDING)
