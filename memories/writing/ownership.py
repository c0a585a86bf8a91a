"""Transfer of ownership after a person's identity has changed or when a person leaves."""

from __future__ import annotations

from django.db import transaction

from memories import extensions
from memories.contract.errors import Forbidden, Invalid
from memories.identity.caller import Caller
from memories.models import MemoryRecord


def move_ownership(*, caller: Caller, old: str, new: str) -> int:
    """Move all memories of `old` to `new`, and return the number of moved memories.

    If `old` has memories that once belonged to `new`, only those are moved back. The original owner is kept in
    metadata.legacy_created_by until the memory is moved back. Raises Forbidden if the caller is not an admin, and
    Invalid if one of the two is empty, if both are the same, or if `new` is not an e-mail address.
    """
    if not caller.is_admin:
        raise Forbidden("only admins can transfer ownership")
    old, new = old.strip(), new.strip().lower()
    if not old or not new or old == new:
        raise Invalid("old and new owner must be given and must differ", field="new", allowed="an e-mail address")
    if len(new) > 254 or "@" not in new:
        raise Invalid(f"{new[:60]!r} is not an e-mail address", field="new", allowed="an e-mail address")
    owned = MemoryRecord.objects.filter(created_by=old)
    returning = owned.filter(metadata__legacy_created_by=new)
    with transaction.atomic():
        # An earlier move is undone: only its memories are moved back, not those that `old` wrote.
        rows = list((returning if returning.exists() else owned).select_for_update())
        for record in rows:
            original_owner = record.metadata.get("legacy_created_by", old)
            record.metadata.pop("legacy_created_by", None)
            if original_owner != new:
                record.metadata["legacy_created_by"] = original_owner
            record.created_by = new
        MemoryRecord.objects.bulk_update(rows, ["created_by", "metadata"], batch_size=500)
        for extension in extensions.registered():
            extension.access_narrowed([record.pk for record in rows])
    return len(rows)
