from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

from django.db import transaction

from foundation.people.caller import Caller
from memories.extensions import MemoryExtension
from memory_project.operating.backups import erased


class BackupsMemoryExtension(MemoryExtension):
    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        erased.record_erased(record_id)
        # After the commit: a list must not name a memory that still exists, and files can't be rolled back.
        transaction.on_commit(partial(erased.append_to_lists, record_id))
        return {}
