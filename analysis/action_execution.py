"""Carrying an action out: a ledger of one item a record, and what each request means for its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils import timezone

from analysis import records
from analysis.models import Action, ActionItem, ActionState, IngestedRecord, Outcome, Session
from analysis.sources.interface import Upstream, UpstreamFailed
from memories.contract import progress
from memories.contract.errors import Conflict
from memories.database import locks
from memories.outbox import delivery as ledgers
from memories.outbox.delivery import DeliveryQueue, DeliveryStatus, Phase, RemoteState, Result

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


def is_interrupted(action: Action) -> bool:
    """Begun, not finished, and nobody is at work on it: its process was killed or its client went away."""
    return action.state == ActionState.RUNNING and not locks.is_locked("action", action.pk)


NAMES = {
    DeliveryStatus.PLANNED: Outcome.PLANNED,
    DeliveryStatus.BEGUN: Outcome.SENDING,
    DeliveryStatus.LANDED: Outcome.SUCCEEDED,
    DeliveryStatus.UNCHANGED: Outcome.SUCCEEDED,
    DeliveryStatus.MOVED: Outcome.DRIFTED,
    DeliveryStatus.FAILED: Outcome.FAILED,
    DeliveryStatus.UNKNOWN: Outcome.UNKNOWN,
}


def deliver(action: Action, upstream: Upstream, session: Session | None, *, again: bool = False) -> Acted:
    busy = Conflict("is being carried out", field="action_id")
    ledger = DeliveryQueue(action.items.all(), "id", NAMES)
    with locks.exclusive("action", action.pk, busy):
        if again:
            ledger.retry()
            action.state = ActionState.RUNNING
            action.save(update_fields=["state"])
        total = action.items.count()
        finished = total - ledger.open.count()
        effect = RecordChange(action, upstream, session)
        for _ in ledgers.deliver(ledger, effect, batch=BATCH, at_once=upstream.at_once):
            finished += 1
            progress.tell(finished, total, f"{action.kind}: {finished}/{total} records processed")
        return _settle(action)


@dataclass(frozen=True)
class RecordChange:
    """memories.outbox.delivery.Delivery: an update or a deletion of a record upstream."""

    action: Action
    upstream: Upstream
    session: Session | None

    @property
    def checks_remote_first(self) -> bool:
        return self.action.revalidate

    def check_remote(self, item: ActionItem, was_begun: bool) -> tuple[RemoteState, str]:
        now = self.upstream.read(item.record_id)
        if self._is_as_asked(now):  # an item that was not begun is sent all the same: its answer is the proof
            return (RemoteState.AS_ASKED if was_begun else RemoteState.AS_BEFORE), ""
        if now is None:
            return RemoteState.OTHERWISE, "is gone"
        differing = _differing(item, now)
        says = f"changed since it was ingested: {', '.join(differing)[:300]}"
        return (RemoteState.OTHERWISE, says) if differing else (RemoteState.AS_BEFORE, "")

    def _is_as_asked(self, now: Mapping[str, Any] | None) -> bool:
        if self.action.kind == "delete" or now is None:
            return self.action.kind == "delete" and now is None
        return all(now.get(name) == value for name, value in self.action.attributes.items())

    def send(self, item: ActionItem) -> Result:
        if self.action.kind == "delete":
            return Result(DeliveryStatus.LANDED, status_code=self.upstream.delete(item.record_id))
        return Result(DeliveryStatus.LANDED, status_code=self.upstream.update(item.record_id, self.action.attributes))

    def status_of_error(self, item: ActionItem, error: Exception, stage: Phase) -> Result:
        if not isinstance(error, UpstreamFailed):
            return Result(DeliveryStatus.UNKNOWN, f"{type(error).__name__}: {error}")
        status_code = error.status_code or None
        if stage != Phase.SENDING:  # nothing was sent now; what was sent before stays unknown
            return Result(
                DeliveryStatus.UNKNOWN if stage == Phase.LOOKING_AGAIN else DeliveryStatus.FAILED,
                error.message,
                status_code,
            )
        if self.action.kind == "delete" and error.status_code in (404, 410):
            return Result(DeliveryStatus.LANDED, "was gone already", status_code)
        no_answer = error.status_code in (0, 500, 502, 504) and not error.never_sent
        return Result(DeliveryStatus.UNKNOWN if no_answer else DeliveryStatus.FAILED, error.message, status_code)

    def note(self, item: ActionItem, result: Result) -> None:
        """The outcome, and the snapshot as the record is now."""
        item.outcome, item.status_code, item.error = NAMES[result.fate], result.status_code, result.error[:2_000]
        with transaction.atomic():
            ActionItem.objects.filter(pk=item.pk).update(
                outcome=item.outcome, status_code=item.status_code, error=item.error, at=timezone.now()
            )
            if item.outcome == Outcome.SUCCEEDED and self.session is not None:
                self._follow(item, self.session)

    def _follow(self, item: ActionItem, session: Session) -> None:
        rows = IngestedRecord.objects.filter(session=session, model=self.action.model, record_id=item.record_id)
        if self.action.kind == "delete":
            rows.delete()
        else:
            rows.update(data={**item.before, **self.action.attributes}, ingested_at=timezone.now())


def _differing(item: ActionItem, now: Mapping[str, Any]) -> list[str]:
    """Fields of the snapshot that the record has with another value. Own fields and flattened ones are not compared."""
    clean = {str(name): records.clean(value) for name, value in now.items()}
    return [name for name, value in item.before.items() if name in clean and clean[name] != value]


def _settle(action: Action) -> Acted:
    counts = outcomes(action)
    fine = set(counts) <= {Outcome.SUCCEEDED.value, Outcome.DRIFTED.value}
    action.state = ActionState.DONE if fine else ActionState.PARTIAL
    action.finished_at = timezone.now()
    action.save(update_fields=["state", "finished_at"])
    return Acted(action, counts, failures(action)[:ERRORS_SHOWN])


def outcomes(action: Action) -> dict[str, int]:
    return dict(action.items.order_by().values_list("outcome").annotate(n=Count("pk")))


def failures(action: Action) -> list[ActionItem]:
    bad = [Outcome.FAILED, Outcome.UNKNOWN]
    return list(action.items.filter(outcome__in=bad).order_by("id")[:100])
