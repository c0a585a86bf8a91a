"""The kinds of rows of analyses that people take along: findings, the analyses of findings, and checks of memories.

Ingested records are copies of another system's data, and are left out. So are the summaries of their pages.
"""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from analysis.checks.expectations import check_values
from analysis.checks.operations import SourceName, Statement
from analysis.models import Finding, MemoryCheck, Session
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memories.portability import ExportKind, Parent, Values, of_record

ANALYSIS = ExportKind(
    name="analysis",
    model=Session,
    columns=("owner", "analysis_id", "persona", "created_at", "last_used_at"),
    key=("owner", "analysis_id"),
    owner="owner",
    only=Exists(Finding.objects.filter(session=OuterRef("pk"), page_key="")),
    counters=frozenset({"last_used_at"}),
)

FINDING = ExportKind(
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


def adapt_check(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Make the caller the author, with whose rights the check runs, and refuse values that its runs can't compare."""
    validate(SourceName, values["source"], "source")
    validate(Statement, values["sql"], "sql")
    check_values(values)
    values["author"] = caller.email


# The results are left out, because they are copies of another system's data. A restored check runs soon.
CHECK = ExportKind(
    name="check",
    model=MemoryCheck,
    columns=(
        "id", "record_id", "author", "created_at", "source", "sql", "expects", "value", "low", "high", "digest",
    ),
    owner="record__created_by",
    parents=(Parent("record_id", MemoryRecord, "created_by"),),
    names=frozenset({"author"}),
    of_persona=of_record,
    adapt=adapt_check,
)  # fmt: skip

KINDS = (ANALYSIS, FINDING, CHECK)
