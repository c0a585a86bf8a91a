"""Questions to the person before apply_knowledge writes to the catalog or rolls a changeset back."""

from __future__ import annotations

from django.conf import settings

from foundation.people.caller import Caller
from foundation.tools.confirmation import ConfirmationQuestion, quoted
from knowledge import operations
from knowledge.catalog.json_patch import ABSENT
from knowledge.changesets import rollback
from knowledge.changesets.apply import preview as preview_changes
from knowledge.changesets.planning import Planned

SHOWN = 5  # maximum number of changes that a question names


def is_confirmed(operation: operations.Apply | operations.RollBack) -> bool:
    return operation.confirm or not settings.APPLY_REQUIRE_CONFIRMATION


def ask_apply(caller: Caller, operation: operations.Apply) -> ConfirmationQuestion | None:
    if operation.dry_run or is_confirmed(operation):
        return None
    preview = preview_changes(caller, operation)
    writes = [planned for planned in preview.planned if not planned.is_noop]
    shown = "; ".join(f"{planned.change_type} {quoted(str(planned.step.write.value))}" for planned in writes[:SHOWN])
    more = f" and {len(writes) - SHOWN} more" if len(writes) > SHOWN else ""
    message = (
        f"Write {len(writes)} values to the catalog for {quoted(preview.entity_urn)}? A rollback can undo this. "
        f"Values: {shown}{more}."
    )
    return ConfirmationQuestion(message, [_state(planned) for planned in preview.planned])


def ask_rollback(caller: Caller, operation: operations.RollBack) -> ConfirmationQuestion | None:
    """Return None if the rollback would be refused, too: the call returns the preview with its conflicts."""
    if operation.dry_run or is_confirmed(operation):
        return None
    rollback.changeset_to_undo(caller, operation.changeset_id)
    preview = rollback.roll_back_preview(caller, changeset_id=operation.changeset_id)
    undos = preview.undos
    reverted = [undo for undo in undos if undo.is_possible]
    left = [undo for undo in undos if not undo.is_possible and not undo.is_kept]
    if left and not operation.skip_conflicts:
        return None
    facts = [
        f"{len(reverted)} values get back what they were before",
        f"{len(undos) - len(reverted)} values stay, because others rely on them or have changed them",
        "the insights wait for review again",
        *(quoted(str(usage)) for usage in preview.used[:SHOWN]),
    ]
    message = f"Roll back the changeset of {quoted(preview.changeset.entity_urn)}? {'; '.join(facts)}."
    return ConfirmationQuestion(
        message, [[undo.change.position, undo.is_ours, undo.relied_on_by, undo.is_erased] for undo in undos]
    )


def _state(planned: Planned) -> list[object]:
    """Return what a planned write depends on in the catalog. What it writes follows from the arguments."""
    write = planned.step.write
    is_absent = planned.before is ABSENT
    place = "" if planned.step.creates else write.urn  # the URN of a new entity is made for each plan
    return [planned.change_type, place, write.aspect, write.operation, is_absent, None if is_absent else planned.before]
