"""Whose memories they are: moved when an identity has changed or somebody leaves."""

from __future__ import annotations

from django.db import transaction

from memories import extensions
from memories.contract.errors import Forbidden, Invalid
from memories.identity.caller import Caller
from memories.models import MemoryRecord


def move_ownership(*, caller: Caller, old: str, new: str) -> int:
    """Gives all that `old` owns to `new`, keeping the first owner in metadata.legacy_created_by; moving it back
    removes that mark again. Returns how many records moved. Admins only."""
    if not caller.is_admin:
        raise Forbidden("only an admin moves ownership")
    old, new = old.strip(), new.strip().lower()
    if not old or not new or old == new:
        raise Invalid("must be two different identities", field="new", allowed="an e-mail address")
    if len(new) > 254 or "@" not in new:
        raise Invalid(f"{new[:60]!r} is not an e-mail address", field="new", allowed="an e-mail address")
    owned = MemoryRecord.objects.filter(created_by=old)
    coming_back = owned.filter(metadata__legacy_created_by=new)
    with transaction.atomic():
        # Undoing an earlier move takes back what was moved then, and nothing that was the other's own.
        rows = list((coming_back if coming_back.exists() else owned).select_for_update())
        for record in rows:
            first = record.metadata.get("legacy_created_by", old)
            record.metadata.pop("legacy_created_by", None)
            if first != new:
                record.metadata["legacy_created_by"] = first
            record.created_by = new
        MemoryRecord.objects.bulk_update(rows, ["created_by", "metadata"], batch_size=500)
        for extension in extensions.registered():
            extension.access_narrowed([record.pk for record in rows])
    return len(rows)
