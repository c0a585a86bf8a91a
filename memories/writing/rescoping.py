"""Change of where a memory holds."""

from __future__ import annotations

from django.db import transaction

from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord
from memories.operations import Rescope
from memories.validity.scopes.choices import scope_for
from memories.writing.correction_chains import require_in_use
from memories.writing.revision import locked, revised


def rescope(caller: Caller, operation: Rescope) -> MemoryRecord:
    """Say where a memory holds, or with an empty scope, that it holds everywhere.

    If a curator has approved the memory, the edit waits for approval, and the record is returned unchanged with a
    message in `pending_message`. Raises Conflict if the memory is archived or superseded, and Invalid if nobody has
    the scope.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        require_in_use(caller, record)
        scope = scope_for(caller, operation.scope, of=record)
        if scope == record.scope:
            return record
        if pending := extensions.defer_edit(caller, record, {"scope": scope}):
            record.pending_message = pending
            return record
        with revised(caller, record, "rescope", operation.reason):
            record.scope = scope
    return record
