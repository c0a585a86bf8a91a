"""Carrying an action out: its requests a few at once, each record's intent saved before and its outcome after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from analysis import records
from analysis.models import Action, ActionItem, ActionState, IngestedRecord, Outcome, Session
from analysis.sources.port import Upstream, UpstreamFailed
from memories.contract import progress
from memories.contract.errors import Conflict
from memories.database import connections, locks

BATCH = 50  # records in one round: their intents are saved together
ERRORS_SHOWN = 5


@dataclass(frozen=True)
class Acted:
    action: Action
    counts: dict[str, int]
    errors: list[ActionItem] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def is_interrupted(made: Action) -> bool:
    """Begun, not finished, and nobody is at work on it: its process was killed or its client went away."""
    return made.state == ActionState.RUNNING and locks.is_free("action", made.pk)


def carry_out(made: Action, upstream: Upstream, session: Session | None, *, again: bool = False) -> Acted:
    busy = Conflict("is being carried out right now", field="action_id")
    with locks.alone("action", made.pk, busy), ThreadPoolExecutor(upstream.at_once) as pool:
        if again:
            made.items.filter(outcome=Outcome.FAILED).update(outcome=Outcome.PLANNED, error="", status_code=None)
            made.items.filter(outcome=Outcome.UNKNOWN).update(outcome=Outcome.SENDING)  # looked at before all else
            made.state = ActionState.RUNNING
            made.save(update_fields=["state"])
        total = made.items.count()
        done = made.items.exclude(outcome__in=[Outcome.PLANNED, Outcome.SENDING]).count()
        while batch := list(made.items.filter(outcome__in=[Outcome.SENDING, Outcome.PLANNED]).order_by("id")[:BATCH]):
            for _ in _round(pool, made, upstream, batch, session):
                done += 1
                progress.tell(done, total, f"{made.kind}: {done}/{total} records processed")
        return _settle(made)


def _round(
    pool: ThreadPoolExecutor, made: Action, upstream: Upstream, batch: Sequence[ActionItem], session: Session | None
) -> Iterator[ActionItem]:
    """One batch: its intents are saved, then its requests sent; outcomes are saved as they come, also when the caller
    goes away in between."""
    unknown = {item.pk for item in batch if item.outcome == Outcome.SENDING}
    ActionItem.objects.filter(pk__in=[item.pk for item in batch]).update(outcome=Outcome.SENDING, at=timezone.now())
    waiting: list[tuple[ActionItem, Future[tuple[Outcome, int | None, str]]]] = [
        (item, pool.submit(_one, made, upstream, item, item.pk in unknown)) for item in batch
    ]
    try:
        while waiting:
            item, future = waiting.pop(0)
            connections.release()
            _note(made, item, *future.result(), session)
            yield item
    finally:
        for item, future in waiting:  # nobody waits any more: what was begun is finished, what was not is planned again
            if future.cancel():
                before = Outcome.SENDING if item.pk in unknown else Outcome.PLANNED
                ActionItem.objects.filter(pk=item.pk).update(outcome=before)
            else:
                _note(made, item, *future.result(), session)


def _one(made: Action, upstream: Upstream, item: ActionItem, unknown: bool) -> tuple[Outcome, int | None, str]:
    """One record, in a thread: only requests, no database."""
    try:
        if unknown or made.revalidate:
            try:
                now = upstream.read(item.record_id)
            except UpstreamFailed as error:  # nothing was sent now; what was sent before stays unknown
                return (Outcome.UNKNOWN if unknown else Outcome.FAILED), error.status_code or None, error.message
            found = _compared(made, item, now)
            if unknown and found == "done":
                return Outcome.SUCCEEDED, None, ""
            if found == "drifted":
                return (Outcome.UNKNOWN if unknown else Outcome.DRIFTED), None, _drift(item, now)
        if made.kind == "delete":
            return Outcome.SUCCEEDED, upstream.delete(item.record_id), ""
        return Outcome.SUCCEEDED, upstream.update(item.record_id, made.attributes), ""
    except UpstreamFailed as error:
        if made.kind == "delete" and error.status_code in (404, 410):
            return Outcome.SUCCEEDED, error.status_code, "was gone already"
        no_answer = error.status_code in (0, 500, 502, 504) and not error.never_sent
        return (Outcome.UNKNOWN if no_answer else Outcome.FAILED), error.status_code or None, error.message
    except Exception as error:  # a fault of ours must not lose the other records' outcomes
        return Outcome.UNKNOWN, None, f"{type(error).__name__}: {error}"


def _compared(made: Action, item: ActionItem, now: Mapping[str, Any] | None) -> str:
    """`done`: as asked for; `same`: as it was ingested; `drifted`: neither."""
    if made.kind == "delete" and now is None:
        return "done"
    if now is None:
        return "drifted"
    if made.kind == "update" and all(now.get(name) == value for name, value in made.attributes.items()):
        return "done"
    return "same" if not _differing(item, now) else "drifted"


def _differing(item: ActionItem, now: Mapping[str, Any]) -> list[str]:
    """Fields of the snapshot that the record has with another value. Own fields and flattened ones are not compared."""
    clean = {str(name): records.clean(value) for name, value in now.items()}
    return [name for name, value in item.before.items() if name in clean and clean[name] != value]


def _drift(item: ActionItem, now: Mapping[str, Any] | None) -> str:
    return "is gone" if now is None else f"changed since it was ingested: {', '.join(_differing(item, now))[:300]}"


def _note(
    made: Action, item: ActionItem, outcome: Outcome, status_code: int | None, error: str, session: Session | None
) -> None:
    """The outcome, and the snapshot as the record is now."""
    item.outcome, item.status_code, item.error = outcome, status_code, error[:2_000]
    with transaction.atomic():
        ActionItem.objects.filter(pk=item.pk).update(
            outcome=outcome, status_code=status_code, error=item.error, at=timezone.now()
        )
        if outcome == Outcome.SUCCEEDED and session is not None:
            rows = IngestedRecord.objects.filter(session=session, model=made.model, record_id=item.record_id)
            if made.kind == "delete":
                rows.delete()
            else:
                rows.update(data={**item.before, **made.attributes}, ingested_at=timezone.now())


def _settle(made: Action) -> Acted:
    counts = outcomes(made)
    fine = set(counts) <= {Outcome.SUCCEEDED.value, Outcome.DRIFTED.value}
    made.state = ActionState.DONE if fine else ActionState.PARTIAL
    made.finished_at = timezone.now()
    made.save(update_fields=["state", "finished_at"])
    return Acted(made, counts, failures(made)[:ERRORS_SHOWN])


def outcomes(made: Action) -> dict[str, int]:
    return dict(made.items.order_by().values_list("outcome").annotate(n=Count("pk")))


def failures(made: Action) -> list[ActionItem]:
    bad = [Outcome.FAILED, Outcome.UNKNOWN]
    return list(made.items.filter(outcome__in=bad).order_by("id")[:100])
