"""Adding and removing tags of a memory, without replacing those that others have added."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid
from foundation.operations.fields import Tags
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord
from memories.operations import Retag
from memories.writing.correction_chains import require_in_use
from memories.writing.revision import locked, revised


def retag(caller: Caller, operation: Retag) -> MemoryRecord:
    """Add and remove tags. A tag that the memory has already, or does not have, changes nothing.

    Raises Conflict if the memory is archived or superseded, and if a curator has approved it: a curator decides about
    edits of such a memory, one by one.
    """
    if not operation.add and not operation.remove:
        raise Invalid(gettext("is empty: no tag is added or removed"), field="add", allowed=gettext("at least one tag"))
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        require_in_use(caller, record)
        kept = [tag for tag in record.tags if tag not in operation.remove]
        tags = validate(Tags, [*kept, *(tag for tag in operation.add if tag not in kept)], "tags")
        if tags == record.tags:
            return record
        if extensions.defer_edit(caller, record, {"tags": tags}):
            # the transaction is rolled back, and with it the proposed edit
            raise Conflict(gettext("was approved by a curator: edit it on its page, and a curator decides"), field="id")
        with revised(caller, record, "retag", operation.reason):
            record.tags = tags
    return record
