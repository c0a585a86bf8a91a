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
        references = [record_id.hex, str(record_id)]  # earlier imports of conversations have stored the second form
        rows = ImportRow.objects.filter(Q(reference__in=references) | Q(existing=record_id))
        repeated = Q(pk__in=rows.values("pk"))
        for staged, key in set(rows.exclude(text_key="").values_list("of", "text_key")):
            repeated |= Q(of=staged, text_key=key)  # a file may say the same again
        erased = ImportRow.objects.filter(repeated)
        return {"import rows": erased.update(data={}, place="", key="", text_key="", reason="was erased")}


@receiver(post_delete, sender=Import)
def delete_files(instance: Import, **_: object) -> None:
    """Delete the files with their import, whoever deletes that, once this is committed."""
    transaction.on_commit(partial(files.delete, instance.pk))
