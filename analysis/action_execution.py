"""Execution of bulk actions: one delivery per record, with its outcome saved as soon as it is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count, F, JSONField, Value
from django.db.models.expressions import CombinedExpression
from django.utils import timezone
from django.utils.translation import gettext

from analysis import records
from analysis.models import Action, ActionItem, ActionState, IngestedRecord, Outcome, Session
from analysis.sources.interface import Upstream, UpstreamFailed
from foundation.database import locks
from foundation.operations.errors import Conflict
from foundation.work import delivery, progress
from foundation.work.delivery import DeliveryPhase, DeliveryQueue, DeliveryResult, DeliveryStatus, RemoteState

BATCH = 50  # maximum number of records that are marked as started together, before their requests are sent
ERRORS_SHOWN = 5


@dataclass(frozen=True)
class ActionResult:
    action: Action
    counts: dict[str, int]
    errors: list[ActionItem] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def is_interrupted(action: Action) -> bool:
    """Return whether the action was started but is neither finished nor running.

    This happens, for example, if its process is killed or its client disconnects.
    """
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


def deliver(action: Action, upstream: Upstream, session: Session | None, *, retry: bool = False) -> ActionResult:
    busy = Conflict(gettext("is already running"), field="action_id")
    queue = DeliveryQueue(action.items.all(), "id", NAMES)
    with locks.exclusive("action", action.pk, busy):
        if retry:
            queue.retry()
            action.state = ActionState.RUNNING
            action.save(update_fields=["state"])
        total = action.items.count()
        finished = total - queue.open.count()
        change = RecordChange(action, upstream, session)
        for _ in delivery.deliver(queue, change, batch=BATCH, at_once=upstream.at_once):
            finished += 1
            progress.tell(finished, total, f"{action.kind}: {finished}/{total} records processed")
        return _finish(action)


@dataclass(frozen=True)
class RecordChange:
    """The change that an action makes to each of its records. Implements foundation.work.delivery.Delivery."""

    action: Action
    upstream: Upstream
    session: Session | None

    @property
    def checks_remote_first(self) -> bool:
        return self.action.revalidate

    def check_remote(self, item: ActionItem, was_begun: bool) -> tuple[RemoteState, str]:
        current = self.upstream.read(item.record_id)
        if self._is_done(current):
            # A request that was never sent is sent nevertheless, so that its response confirms the outcome.
            return (RemoteState.AS_ASKED if was_begun else RemoteState.AS_BEFORE), ""
        if current is None:
            return RemoteState.OTHERWISE, "no longer exists"
        differing = _differing(item, current)
        message = f"changed since it was ingested: {', '.join(differing)[:300]}"
        return (RemoteState.OTHERWISE, message) if differing else (RemoteState.AS_BEFORE, "")

    def _is_done(self, current: Mapping[str, Any] | None) -> bool:
        if self.action.kind == "delete":
            return current is None
        return current is not None and all(current.get(name) == value for name, value in self.action.attributes.items())

    def send(self, item: ActionItem) -> DeliveryResult:
        if self.action.kind == "delete":
            return DeliveryResult(DeliveryStatus.LANDED, status_code=self.upstream.delete(item.record_id))
        return DeliveryResult(
            DeliveryStatus.LANDED, status_code=self.upstream.update(item.record_id, self.action.attributes)
        )

    def status_of_error(self, item: ActionItem, error: Exception, phase: DeliveryPhase) -> DeliveryResult:
        if not isinstance(error, UpstreamFailed):
            return DeliveryResult(DeliveryStatus.UNKNOWN, f"{type(error).__name__}: {error}")
        status_code = error.status_code or None
        if phase != DeliveryPhase.SENDING:  # nothing was sent this time, but LOOKING_AGAIN follows an earlier attempt
            return DeliveryResult(
                DeliveryStatus.UNKNOWN if phase == DeliveryPhase.LOOKING_AGAIN else DeliveryStatus.FAILED,
                error.message,
                status_code,
            )
        if self.action.kind == "delete" and error.status_code in (404, 410):
            return DeliveryResult(DeliveryStatus.LANDED, "was already deleted", status_code)
        no_response = error.status_code in (0, 500, 502, 504) and not error.never_sent
        return DeliveryResult(
            DeliveryStatus.UNKNOWN if no_response else DeliveryStatus.FAILED, error.message, status_code
        )

    def save_result(self, item: ActionItem, result: DeliveryResult) -> None:
        """Save the outcome. If the change succeeded and the session still exists, change the ingested copy, too."""
        item.outcome = NAMES[result.status]
        item.status_code = result.status_code
        item.error = result.error[:2_000]
        with transaction.atomic():
            ActionItem.objects.filter(pk=item.pk).update(
                outcome=item.outcome, status_code=item.status_code, error=item.error, at=timezone.now()
            )
            if item.outcome == Outcome.SUCCEEDED and self.session is not None:
                self._update_copy(item, self.session)

    def _update_copy(self, item: ActionItem, session: Session) -> None:
        rows = IngestedRecord.objects.filter(session=session, model=self.action.model, record_id=item.record_id)
        if self.action.kind == "delete":
            rows.delete()
        else:
            # The copy may be newer than the snapshot, because the source was read again since.
            sent = Value(self.action.attributes, JSONField())
            rows.update(data=CombinedExpression(F("data"), "||", sent))


def _differing(item: ActionItem, current: Mapping[str, Any]) -> list[str]:
    """Return the names of fields that are in both the snapshot and `current`, with different values.

    Fields in only one of them are not compared, because the ingest may add, flatten and leave out fields.
    """
    clean = {str(name): records.clean(value) for name, value in current.items()}
    return [name for name, value in item.before.items() if name in clean and clean[name] != value]


def _finish(action: Action) -> ActionResult:
    counts = outcomes(action)
    is_done = set(counts) <= {Outcome.SUCCEEDED.value, Outcome.DRIFTED.value}
    action.state = ActionState.DONE if is_done else ActionState.PARTIAL
    action.finished_at = timezone.now()
    action.save(update_fields=["state", "finished_at"])
    return ActionResult(action, counts, failures(action)[:ERRORS_SHOWN])


def outcomes(action: Action) -> dict[str, int]:
    return dict(action.items.order_by().values_list("outcome").annotate(count=Count("pk")))


def failures(action: Action) -> list[ActionItem]:
    failed = [Outcome.FAILED, Outcome.UNKNOWN]
    return list(action.items.filter(outcome__in=failed).order_by("id")[:100])
