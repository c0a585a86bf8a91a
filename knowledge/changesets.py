"""Applying approved insights to the catalog, and taking that back.

The intent is saved before anything is sent, each outcome as soon as it is known. A write whose outcome is
unknown is read from the catalog before it is repeated, so that a kill at any line is resumed and nothing is
done twice. No catalog call happens inside a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from knowledge import catalog as catalogs
from knowledge import insights
from knowledge.catalog import staleness
from knowledge.catalog.patch import ABSENT, equal, value_at
from knowledge.catalog.port import CatalogPort, CatalogRefused, CatalogUnavailable, Run, Write
from knowledge.change_request import Request
from knowledge.change_types import clean_request
from knowledge.created_things import TAKEN_BACK
from knowledge.models import Change, ChangeOutcome, Changeset, ChangesetState, Insight, InsightState
from knowledge.planning import Planned, plan
from memories import locks, validation
from memories.access import Caller
from memories.errors import Conflict, Invalid, NotFound, check_count
from memories.models import Status

CHANGES_MAX = 20
VISIBLE_WITHIN_S = (0, 0.1, 0.3, 1.0)  # pauses before each look at what was written
DONE = (ChangeOutcome.LANDED, ChangeOutcome.NOOP)


@dataclass(frozen=True)
class Preview:
    """What applying would do; nothing was written."""

    entity_urn: str
    planned: list[Planned]


@dataclass(frozen=True)
class Applied:
    changeset: Changeset
    changes: list[Change]
    insights_marked: int = 0


@dataclass(frozen=True)
class RolledBack:
    changeset: Changeset
    reverted: list[Change] = field(default_factory=list)
    conflicts: list[Change] = field(default_factory=list)
    skipped: list[Change] = field(default_factory=list)
    insights_returned: int = 0


# -- apply -------------------------------------------------------------------------------------------------


def preview(
    *, caller: Caller, insight_ids: Sequence[str], changes: Sequence[Mapping[str, Any]], entity_urn: str = ""
) -> Preview:
    """The changes with what stands at each path now. The same checks as apply."""
    urn, requests, _ = _checked(caller, insight_ids, changes, entity_urn)
    return Preview(urn, plan(catalogs.current(), urn, requests, caller.email, "preview"))


def apply(
    *, caller: Caller, insight_ids: Sequence[str], changes: Sequence[Mapping[str, Any]], entity_urn: str = ""
) -> Applied:
    """Writes the changes for these approved insights. What fails half-way leaves a partial changeset, which can
    be resumed or rolled back. Raises Conflict if somebody else is applying one of the insights."""
    urn, requests, bound = _checked(caller, insight_ids, changes, entity_urn)
    catalog = catalogs.current()
    changeset = Changeset(
        entity_urn=urn,
        persona=bound[0].record.persona,
        catalog=catalog.name,
        insight_ids=[insight.pk.hex for insight in bound],
        applied_by=caller.email,
    )
    planned = plan(catalog, urn, requests, caller.email, changeset.pk.hex)
    with transaction.atomic():
        changeset.save(force_insert=True)
        Change.objects.bulk_create([_row(changeset, position, one) for position, one in enumerate(planned)])
        insights.claim([insight.pk for insight in bound], changeset)
    return _carry_out(caller, catalog, changeset)


def resume(*, caller: Caller, changeset_id: UUID | str) -> Applied:
    """Goes on with an interrupted or partial changeset; what landed already is not written again."""
    insights.require_curator(caller)
    changeset = find(caller, changeset_id)
    if changeset.state not in (ChangesetState.PLANNED, ChangesetState.PARTIAL):
        raise Conflict(f"is {changeset.state}: there is nothing to resume", field="changeset_id")
    catalog = _catalog_of(changeset)
    changeset.changes.filter(outcome=ChangeOutcome.FAILED).update(outcome=ChangeOutcome.PLANNED, error="")
    return _carry_out(caller, catalog, changeset)


def find(caller: Caller, changeset_id: UUID | str) -> Changeset:
    pk = validation.clean_id(changeset_id, "changeset_id")
    changeset = Changeset.objects.visible_to(caller).filter(pk=pk).first()
    if changeset is None:
        raise NotFound("no such changeset", field="changeset_id")
    return changeset


def _checked(
    caller: Caller, insight_ids: Sequence[str], changes: Sequence[Mapping[str, Any]], entity_urn: str
) -> tuple[str, list[Request], list[Insight]]:
    insights.require_curator(caller)
    urn = validation.clean_urn(entity_urn, "entity_urn") if entity_urn else ""
    if not changes:
        raise Invalid("is empty", field="changes", allowed=f"1 to {CHANGES_MAX} of {{change_type, target, detail}}")
    check_count("changes", changes, CHANGES_MAX)
    requests = [clean_request(change, f"changes[{place}]") for place, change in enumerate(changes)]
    check_count("insight_ids", insight_ids, insights.AT_ONCE)
    ids = list(dict.fromkeys(validation.clean_id(one, "insight_ids") for one in insight_ids))
    if not ids:
        raise Invalid("is empty", field="insight_ids", allowed="the approved insights that these changes come from")
    bound = list(Insight.objects.visible_to(caller).filter(pk__in=ids).select_related("record"))
    if len(bound) != len(ids):
        raise NotFound(f"{len(ids) - len(bound)} of these insights do not exist", field="insight_ids")
    if wrong := [insight for insight in bound if insight.state != InsightState.APPROVED]:
        listed = ", ".join(f"{insight.pk.hex} is {insight.state}" for insight in wrong[:5])
        raise Conflict(f"only approved insights are applied: {listed}", field="insight_ids")
    for insight in bound:
        insights.require_curator_of(caller, insight.record)
        if insight.record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"{insight.pk.hex} was {insight.record.status} by its owner", field="insight_ids")
    return urn, requests, bound


def _row(changeset: Changeset, position: int, planned: Planned) -> Change:
    write = planned.step.write
    return Change(
        changeset=changeset,
        position=position,
        request=planned.request,
        change_type=planned.change_type,
        urn=write.urn,
        aspect=write.aspect,
        path=list(write.path),
        operation=write.operation,
        had_before=planned.before is not ABSENT,
        before=None if planned.before is ABSENT else planned.before,
        written=write.value,
        creates=planned.step.creates,
        outcome=ChangeOutcome.NOOP if planned.is_noop else ChangeOutcome.PLANNED,
    )


def _carry_out(caller: Caller, catalog: CatalogPort, changeset: Changeset) -> Applied:
    run = Run(changeset.run_id, changeset.applied_by, {"changeset": changeset.pk.hex})
    with _alone(changeset), staleness.our_own(set(changeset.changes.values_list("urn", flat=True))):
        open_changes = changeset.changes.filter(outcome__in=[ChangeOutcome.PLANNED, ChangeOutcome.SENDING])
        for change in open_changes.order_by("position"):
            _send(catalog, change, run)
            if change.outcome not in DONE:
                break
        return _settle(caller, changeset)


def _send(catalog: CatalogPort, change: Change, run: Run) -> None:
    """One write, its outcome saved. A value that others moved is a conflict, and is left alone."""
    try:
        if _as_written(change, current := _current(catalog, change)):
            return _note(
                change, ChangeOutcome.LANDED if change.outcome == ChangeOutcome.SENDING else ChangeOutcome.NOOP
            )
        if not _as_before(change, current):
            return _note(change, ChangeOutcome.CONFLICT, "the value was changed by others since this was planned")
        _note(change, ChangeOutcome.SENDING)
        catalog.write(_forward(change), run)
        for pause in VISIBLE_WITHIN_S:
            time.sleep(pause)
            if _as_written(change, current := _current(catalog, change)):
                return _note(change, ChangeOutcome.LANDED)
            if not _as_before(change, current):
                return _note(change, ChangeOutcome.CONFLICT, "it was written, and something else stands there now")
        _note(change, ChangeOutcome.SENDING, "it was written, and can't be read back yet: resume looks again")
    except CatalogRefused as error:
        _note(change, ChangeOutcome.FAILED, error.message)
    except CatalogUnavailable as error:
        _look_again(catalog, change, error)


def _look_again(catalog: CatalogPort, change: Change, error: CatalogUnavailable) -> None:
    """The catalog did not answer: did the write land? If that can't be said, it stays open."""
    outcome = change.outcome
    if outcome == ChangeOutcome.SENDING:
        try:
            current = _current(catalog, change)
        except (CatalogUnavailable, CatalogRefused):
            pass
        else:
            if _as_written(change, current):
                return _note(change, ChangeOutcome.LANDED)
            outcome = ChangeOutcome.PLANNED
    _note(change, ChangeOutcome(outcome), error.message)


def _settle(caller: Caller, changeset: Changeset) -> Applied:
    """The changeset's state from its changes' outcomes, and what follows for its insights."""
    changes = list(changeset.changes.all())
    outcomes = {change.outcome for change in changes}
    marked = 0
    changeset.error = next((change.error for change in changes if change.error), "")
    if outcomes <= set(DONE):
        changeset.state, changeset.error = ChangesetState.APPLIED, ""
        marked = insights.mark_applied(caller, changeset)
    elif outcomes & {ChangeOutcome.LANDED, ChangeOutcome.SENDING}:
        changeset.state = ChangesetState.PARTIAL
    else:
        changeset.state = ChangesetState.FAILED
        insights.release(changeset)
    changeset.finished_at = timezone.now()
    changeset.save(update_fields=["state", "error", "finished_at"])
    return Applied(changeset, changes, marked)


# -- roll back ---------------------------------------------------------------------------------------------


def roll_back(*, caller: Caller, changeset_id: UUID | str, skip_conflicts: bool = False) -> RolledBack:
    """Puts back what stood at each path, where the value is still the one we wrote. Otherwise Conflict, naming
    the paths; with `skip_conflicts` those are left as they are and the rest is put back."""
    insights.require_curator(caller)
    changeset = find(caller, changeset_id)
    if changeset.state not in (ChangesetState.APPLIED, ChangesetState.PARTIAL, ChangesetState.PLANNED):
        raise Conflict(f"is {changeset.get_state_display().lower()} already", field="changeset_id")
    catalog = _catalog_of(changeset)
    with _alone(changeset), staleness.our_own(set(changeset.changes.values_list("urn", flat=True))):
        return _put_back(caller, catalog, changeset, skip_conflicts)


def roll_back_preview(*, caller: Caller, changeset_id: UUID | str) -> list[tuple[Change, bool]]:
    """What rolling back would touch, newest first, and whether each value is still the one we wrote."""
    changeset = find(caller, changeset_id)
    catalog = _catalog_of(changeset)
    return [(change, _as_written(change, _current(catalog, change))) for change in _landed(changeset)]


def _landed(changeset: Changeset) -> list[Change]:
    """Changes to undo, last first. A later change of the same path stands for all of them."""
    states = [ChangeOutcome.LANDED, ChangeOutcome.SENDING, ChangeOutcome.REVERTING]
    newest: dict[tuple[Any, ...], Change] = {}
    for change in changeset.changes.filter(outcome__in=states).order_by("position"):
        place = (change.urn, change.aspect, tuple(change.path))
        if first := newest.get(place):
            change.had_before, change.before, change.creates = first.had_before, first.before, first.creates
        newest[place] = change
    return sorted(newest.values(), key=lambda change: -change.position)


def _put_back(caller: Caller, catalog: CatalogPort, changeset: Changeset, skip_conflicts: bool) -> RolledBack:
    changes = _landed(changeset)
    created = {change.urn for change in changes if change.creates}
    ours: list[Change] = []
    conflicts: list[Change] = []
    for change in changes:
        current = _current(catalog, change)
        resumed = (change.outcome != ChangeOutcome.LANDED and _as_before(change, current)) or _is_taken_back(
            change, current
        )
        (ours if resumed or _as_written(change, current) else conflicts).append(change)
    if conflicts and not skip_conflicts:
        places = "; ".join(f"{change.urn} {change}" for change in conflicts[:5])
        raise Conflict(
            f"others have changed since: {places}", field="changeset_id", allowed="skip_conflicts to leave those"
        )
    run = Run(f"{changeset.run_id}-back", caller.email, {"rolls_back": changeset.pk.hex})
    for change in ours:
        _revert(catalog, change, run, with_its_entity=change.urn in created and not change.creates)
    for change in conflicts:
        _note(change, ChangeOutcome.CONFLICT, "changed by others since; left as it is")
    changeset.changes.filter(outcome=ChangeOutcome.LANDED).update(outcome=ChangeOutcome.REVERTED)
    with transaction.atomic():
        returned = insights.return_to_review(caller, changeset)
        changeset.state = ChangesetState.ROLLED_BACK
        changeset.rolled_back_by, changeset.rolled_back_at = caller.email, timezone.now()
        changeset.save(update_fields=["state", "rolled_back_by", "rolled_back_at"])
    skipped = list(changeset.changes.filter(outcome=ChangeOutcome.NOOP))
    return RolledBack(changeset, ours, conflicts, skipped, returned)


def _revert(catalog: CatalogPort, change: Change, run: Run, *, with_its_entity: bool) -> None:
    """The inverse of one write. What was written on an entity that we created goes with that."""
    current = _current(catalog, change)
    if with_its_entity or _as_before(change, current) or _is_taken_back(change, current):
        return _note(change, ChangeOutcome.REVERTED)
    _note(change, ChangeOutcome.REVERTING)
    catalog.write(inverse(change), run)
    _note(change, ChangeOutcome.REVERTED)


def _forward(change: Change) -> Write:
    return Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written)


def inverse(change: Change) -> Write:
    """A created entity is soft-deleted; a value is put back; what was absent is removed."""
    if change.creates and change.aspect in TAKEN_BACK:
        path, value = TAKEN_BACK[change.aspect]
        return Write(change.urn, change.aspect, path, "add", value)
    if change.creates:
        return Write(change.urn, "status", ("removed",), "add", True)
    path = tuple(change.path)
    if change.had_before:
        return Write(change.urn, change.aspect, path, "add", change.before)
    return Write(change.urn, change.aspect, path, "remove")


def replay(*, caller: Caller, changeset_id: UUID | str) -> tuple[int, int]:
    """Writes an applied changeset's values again where they are no longer there: (written, there already)."""
    insights.require_curator(caller)
    changeset = find(caller, changeset_id)
    if changeset.state != ChangesetState.APPLIED:
        raise Conflict(f"is {changeset.state}: only an applied changeset is replayed", field="changeset_id")
    catalog = _catalog_of(changeset)
    run = Run(changeset.run_id, caller.email, {"replays": changeset.pk.hex})
    written = 0
    with _alone(changeset):
        wanted = list(changeset.changes.filter(outcome__in=DONE).order_by("position"))
        for change in wanted:
            if not _as_written(change, _current(catalog, change)):
                catalog.write(
                    Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written), run
                )
                written += 1
    return written, len(wanted) - written


# -- parts -------------------------------------------------------------------------------------------------


def _current(catalog: CatalogPort, change: Change) -> Any:
    read = catalog.read([change.urn], [change.aspect])[change.urn][change.aspect]
    return value_at(change.aspect, read.value, change.path)


def _as_written(change: Change, current: Any) -> bool:
    if change.operation == "remove":
        return current is ABSENT
    return current is not ABSENT and equal(current, change.written)


def _as_before(change: Change, current: Any) -> bool:
    if not change.had_before:
        return current is ABSENT
    return current is not ABSENT and equal(current, change.before)


def _is_taken_back(change: Change, current: Any) -> bool:
    """Whether a created entity that is not soft-deleted is in the state that stands for that."""
    if not change.creates or change.aspect not in TAKEN_BACK or current is ABSENT:
        return False
    path, value = TAKEN_BACK[change.aspect]
    return equal(value_at(change.aspect, current, path), value)


def _note(change: Change, outcome: ChangeOutcome, error: str = "") -> None:
    change.outcome, change.error = outcome, error
    Change.objects.filter(pk=change.pk).update(outcome=outcome, error=error)


def _catalog_of(changeset: Changeset) -> CatalogPort:
    catalog = catalogs.current()
    if catalog.name != changeset.catalog:
        raise Conflict(
            f"was written to the catalog {changeset.catalog!r}, configured is {catalog.name!r}", field="changeset_id"
        )
    return catalog


@contextmanager
def _alone(changeset: Changeset) -> Iterator[None]:
    """Nobody else carries out or rolls back this changeset meanwhile."""
    busy = Conflict("somebody else is working on it right now", field="changeset_id")
    with locks.alone("changeset", changeset.pk, busy):
        changeset.refresh_from_db()
        yield
