"""Preview of a bulk action: which rows it would change, which it would skip, and why.

The action is tried on the rows and rolled back, so the preview follows the same rules as the action itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from foundation.operations.errors import check_choice
from foundation.operations.fields import Reason
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.models import Batch
from memories.writing.bulk_actions import AT_ONCE, BULK_ACTIONS, checked, run_row

LIMIT_S = 2.0  # seconds after which the remaining rows are left unchecked


@dataclass(frozen=True)
class BulkPreview:
    unit_ids: list[UUID]
    outcomes: list[str]  # of the rows that were checked, in the order of unit_ids

    @property
    def changed(self) -> list[UUID]:
        return [unit for unit, outcome in zip(self.unit_ids, self.outcomes, strict=False) if not outcome]

    @property
    def skipped(self) -> list[tuple[UUID, str]]:
        return [(unit, outcome) for unit, outcome in zip(self.unit_ids, self.outcomes, strict=False) if outcome]

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """The reasons why rows are skipped, with their numbers of rows, the most frequent first."""
        return Counter(outcome for _, outcome in self.skipped).most_common()

    @property
    def unchecked(self) -> int:
        return len(self.unit_ids) - len(self.outcomes)


def preview(
    caller: Caller, *, act: str, unit_ids: Sequence[UUID | str], note: str = "", choice: str = ""
) -> BulkPreview:
    """Try the action on as many rows as LIMIT_S allows. Nothing is changed.

    Raises Invalid for a slow action, which calls a model or another system.
    """
    check_choice("act", act, [name for name, action in BULK_ACTIONS.items() if not action.is_slow])
    _, ids = checked(act, unit_ids)
    batch = Batch(created_by=caller.email, persona=caller.persona, act=act, unit_ids=ids, choice=choice)
    batch.note = validate(Reason, note, "note")
    deadline = time.monotonic() + LIMIT_S
    outcomes: list[str] = []
    while len(outcomes) < len(ids) and time.monotonic() < deadline:
        with transaction.atomic():
            outcomes += [run_row(caller, batch, unit) for unit in ids[len(outcomes) : len(outcomes) + AT_ONCE]]
            transaction.set_rollback(True)
    return BulkPreview(ids, outcomes)
