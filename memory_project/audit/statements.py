"""Statements of earlier calls of query_sql, from the audit log, which keeps short ones."""

from __future__ import annotations

from uuid import UUID

from foundation.people.caller import Caller
from memory_project.models import AuditEvent

LAST = "last"


def recent_statement(caller: Caller, call: str) -> tuple[str, str] | None:
    """Return the source and the SQL of a successful call of query_sql by the caller, or None.

    `call` is the id of its audit event, or "last". A statement of more than MAX_TEXT characters is not known, and its
    call must not be mistaken for an earlier one.
    """
    rows = AuditEvent.objects.filter(email=caller.email, tool="query_sql", outcome=AuditEvent.Outcome.OK)
    if call != LAST:
        try:
            rows = rows.filter(pk=UUID(call))
        except ValueError:
            return None
    arguments = rows.order_by("-at").values_list("arguments", flat=True).first() if caller.email else None
    sql = arguments.get("sql") if arguments else None
    if not isinstance(sql, str) or (sql.startswith("[") and sql.endswith(" characters]")):
        return None
    return str(arguments.get("source") or "") if arguments else "", sql
