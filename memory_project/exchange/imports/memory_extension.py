"""Erasure, wipes and hand-overs of imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.signals import post_delete
from django.dispatch import receiver

from foundation.people.caller import Caller
from memories.extensions import MemoryExtension
from memory_project.exchange.imports import files
from memory_project.exchange.imports.models import Import, ImportRow


class ImportsMemoryExtension(MemoryExtension):
    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        rows = ImportRow.objects.filter(Q(reference=record_id.hex) | Q(existing=record_id))
        return {"import rows": rows.update(data={}, place="", key="", reason="was erased")}


@receiver(post_delete, sender=Import)
def delete_files(instance: Import, **_: object) -> None:
    """Delete the files with their import, whoever deletes that, once this is committed."""
    transaction.on_commit(partial(files.delete, instance.pk))
