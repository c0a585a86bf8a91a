"""Work of the workers: distribute events to endpoints, send what is due, and pause endpoints that fail for a day.

A request is sent before its result is stored. A worker that is killed in between lets the next one send the request
again, with the same webhook-id. So each event arrives at least once.
"""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from foundation.database import connections, locks
from foundation.database.locks import exclusive
from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.models import User
from memory_project.notifications import inbox
from memory_project.notifications.webhooks import bodies, events, pause_reasons, posting, signing
from memory_project.notifications.webhooks.endpoints import may_have_endpoints
from memory_project.notifications.webhooks.models import Delivery, DeliveryState, Endpoint, Event
from memory_project.notifications.webhooks.posting import EndpointAnswer

# Pauses between the tries of a delivery: eleven tries within a day.
PAUSES = [timedelta(minutes=minutes) for minutes in (1, 2, 5, 15, 30, 60, 120, 240, 360, 600)]
FAILING_FOR = sum(PAUSES, timedelta())  # an endpoint without a success for so long is paused
EVENTS_AT_ONCE = 500
REQUESTS_AT_ONCE = 10  # to one endpoint
MAX_POSTPONED = timedelta(hours=1)
UNREADABLE = "the owner of the endpoint can't read what it is about"
GONE = 410  # by this status, a receiver says that it wants no more requests


def send_due(*, until: float) -> str:
    """Distribute the stored events and send what is due, until the time `until` (time.monotonic)."""
    distributed = 0
    while count := distribute():
        distributed += count
    due = Delivery.objects.filter(state=DeliveryState.WAITING, next_try_at__lte=timezone.now())
    # Endpoints that work come first: those that fail may take the whole time.
    ready = Endpoint.objects.filter(pk__in=due.order_by().values("endpoint"), paused_at=None)
    in_order = ready.order_by(F("failing_since").desc(nulls_first=True)).values_list("pk", flat=True)
    sent = sum(send_to(pk, until=until) for pk in list(in_order))
    if time.monotonic() >= until:
        events.queue_sending()
    return f"{distributed} events distributed, {sent} requests sent"


def distribute() -> int:
    """Turn a batch of events into deliveries for the endpoints whose owners may read what they are about."""
    with transaction.atomic():
        batch = list(Event.objects.select_for_update(skip_locked=True).order_by("pk")[:EVENTS_AT_ONCE])
        for endpoint in Endpoint.objects.filter(paused_at=None, kinds__overlap=list({event.kind for event in batch})):
            caller, reason = recipient(endpoint)
            if caller is None:
                pause(endpoint, reason)
                continue
            wanted = [event for event in batch if event.kind in endpoint.kinds and event.owner in ("", endpoint.owner)]
            found = bodies.readable(caller, wanted)
            Delivery.objects.bulk_create(
                Delivery(
                    endpoint=endpoint, kind=event.kind, record_id=event.record_id, details=event.details,
                    occurred_at=event.at,
                )
                for event in wanted
                if bodies.is_readable(event, found)
            )  # fmt: skip
        Event.objects.filter(pk__in=[event.pk for event in batch]).delete()
    return len(batch)


def recipient(endpoint: Endpoint) -> tuple[Caller | None, str]:
    """Return the owner of an endpoint with their present permissions, or None and why nothing may be sent."""
    person = User.objects.filter(email=endpoint.owner).first()
    if person is None:
        return None, pause_reasons.NO_ACCOUNT
    try:
        caller = build_caller(person, channel="webhook")
    except Forbidden:
        return None, pause_reasons.DISABLED
    if not may_have_endpoints(caller):
        return None, pause_reasons.NOT_ALLOWED
    if endpoint.set_up_by != endpoint.owner:
        return None, pause_reasons.HANDED_OVER
    if not signing.is_known(endpoint):
        return None, pause_reasons.SECRET_UNKNOWN
    return caller, ""


def send_to(endpoint_id: UUID, *, until: float) -> int:
    """Send what is due to one endpoint, until a request fails. Returns the number of requests."""
    sent = 0
    try:
        with exclusive("webhook endpoint", endpoint_id, Conflict("another worker sends to it")):
            while time.monotonic() < until:
                endpoint = Endpoint.objects.filter(pk=endpoint_id, paused_at=None).first()
                answers = _send_batch(endpoint) if endpoint else []
                sent += len(answers)
                if not answers or any(answer.error for answer in answers):
                    break
    except Conflict:
        return 0
    return sent


def _send_batch(endpoint: Endpoint) -> list[EndpointAnswer]:
    caller, reason = recipient(endpoint)
    if caller is None:
        pause(endpoint, reason)
        return []
    prepared = _prepare(caller, endpoint)
    if not prepared:
        return []
    connections.close_if_pooled()  # hold no database connection while waiting for another server
    answers = posting.post_all(endpoint.url, [request for _, request in prepared])
    with locks.fenced():
        for (delivery, _), answer in zip(prepared, answers, strict=True):
            _note(endpoint, delivery, answer)
        if any(answer.error for answer in answers):
            _postpone(endpoint)
    return answers


def _postpone(endpoint: Endpoint) -> None:
    """Let what is due to a failing endpoint wait, the longer it has failed. These deliveries keep their tries."""
    now = timezone.now()
    since = Endpoint.objects.filter(pk=endpoint.pk).values_list("failing_since", flat=True).first() or now
    _due(endpoint).update(next_try_at=now + min(max(PAUSES[0], (now - since) / 4), MAX_POSTPONED))


def _prepare(caller: Caller, endpoint: Endpoint) -> list[tuple[Delivery, posting.EventRequest]]:
    """Return the requests to send next. Deliveries about what the owner may not read any more are skipped."""
    # A failing endpoint gets a single request. Those come first that were tried least, because they may succeed.
    limit = 1 if endpoint.failing_since else REQUESTS_AT_ONCE
    while deliveries := list(_due(endpoint).order_by("attempts", "next_try_at")[:limit]):
        found = bodies.readable(caller, deliveries)
        hidden = [delivery.pk for delivery in deliveries if not bodies.is_readable(delivery, found)]
        if hidden:
            changes = {"state": DeliveryState.SKIPPED, "next_try_at": None, "error": UNREADABLE}
            Delivery.objects.filter(pk__in=hidden).update(**changes)
        if len(hidden) < len(deliveries):
            return [
                (delivery, _request(caller, endpoint, delivery, found))
                for delivery in deliveries
                if delivery.pk not in hidden
            ]
    return []


def _due(endpoint: Endpoint) -> QuerySet[Delivery]:
    return Delivery.objects.filter(endpoint=endpoint, state=DeliveryState.WAITING, next_try_at__lte=timezone.now())


def _request(caller: Caller, endpoint: Endpoint, delivery: Delivery, found: bodies.Readable) -> posting.EventRequest:
    body = bodies.body_of(caller, delivery, found, with_texts=endpoint.with_texts)
    headers = signing.headers(endpoint, delivery.message_id, body, timezone.now())
    return posting.EventRequest({"Content-Type": "application/json", **headers}, body)


def _note(endpoint: Endpoint, delivery: Delivery, answer: EndpointAnswer) -> None:
    """Store the result of a try, and pause an endpoint that has failed for a day or is gone."""
    now = timezone.now()
    attempts = delivery.attempts + 1
    tried = Delivery.objects.filter(pk=delivery.pk)
    this = Endpoint.objects.filter(pk=endpoint.pk)
    result = {"attempts": attempts, "tried_at": now, "status_code": answer.status_code, "error": answer.error}
    if not answer.error:
        tried.update(**result, state=DeliveryState.DELIVERED, next_try_at=None)
        this.exclude(failing_since=None).update(failing_since=None)
        return
    if attempts > len(PAUSES):
        tried.update(**result, state=DeliveryState.FAILED, next_try_at=None)
    else:
        tried.update(**result, next_try_at=now + PAUSES[attempts - 1])
    this.update(failing_since=Coalesce(F("failing_since"), now))
    if answer.status_code == GONE:
        pause(endpoint, pause_reasons.GONE)
    elif this.filter(failing_since__lte=now - FAILING_FOR).exists():
        pause(endpoint, pause_reasons.FAILING % {"error": answer.error})


def pause(endpoint: Endpoint, reason: str) -> None:
    """Pause an endpoint and tell its owner, unless it is paused already."""
    changes = {"paused_at": timezone.now(), "pause_reason": reason[:300]}
    if Endpoint.objects.filter(pk=endpoint.pk, paused_at=None).update(**changes):
        inbox.notify("webhook_paused", [endpoint.owner], record_id=endpoint.pk, by="")


def preview(delivery: Delivery) -> str:
    """Return the body as it would be sent now, or why nothing would be sent."""
    caller, reason = recipient(delivery.endpoint)
    if caller is None:
        return reason
    found = bodies.readable(caller, [delivery])
    if not bodies.is_readable(delivery, found):
        return UNREADABLE
    return bodies.body_of(caller, delivery, found, with_texts=delivery.endpoint.with_texts)
