"""Change of where a memory holds."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext

from memories import extensions
from memories.contract.errors import Conflict
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status
from memories.operations import Rescope
from memories.scopes.choices import scope_for
from memories.writing.revision import locked, revised


def rescope(operation: Rescope, *, caller: Caller) -> MemoryRecord:
    """Say where a memory holds, or with an empty scope, that it holds everywhere.

    If a curator has approved the memory, the edit waits for approval, and the record is returned unchanged with a
    message in `pending_message`. Raises Conflict if the memory is archived or superseded, and Invalid if nobody has
    the scope.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(
                gettext("is %(status)s: restore it before changing it") % {"status": record.status}, field="id"
            )
        scope = scope_for(caller, operation.scope, of=record)
        if scope == record.scope:
            return record
        deferrals = [extension.defer_edit(caller, record, {"scope": scope}) for extension in extensions.registered()]
        if pending := next(filter(None, deferrals), ""):
            record.pending_message = pending
            return record
        with revised(caller, record, "rescope", operation.reason):
            record.scope = scope
    return record
