"""Services for webhook endpoints: create, change, pause, rotate the secret, delete, test, and repeat deliveries.

Everyone manages their own endpoints, and admins those of all people.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Prefetch, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, LimitReached, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller, require_user
from memory_project.notifications.webhooks import events, pause_reasons, signing
from memory_project.notifications.webhooks.models import Delivery, DeliveryState, Endpoint
from memory_project.notifications.webhooks.operations import CreateEndpoint, UpdateEndpoint
from memory_project.notifications.webhooks.posting import check_url

MAX_ENDPOINTS = 20  # of one person


def may_have_endpoints(caller: Caller) -> bool:
    """Return whether WEBHOOK_SUBSCRIBERS lets events be sent for the caller."""
    match settings.WEBHOOK_SUBSCRIBERS:
        case "everyone":
            return True
        case "operators":
            return caller.is_operator
        case _:
            return False


def endpoints_of(caller: Caller) -> QuerySet[Endpoint]:
    """Return the endpoints that the caller may manage."""
    return Endpoint.objects.all() if caller.is_admin else Endpoint.objects.filter(owner=caller.email)


def pause_texts(caller: Caller) -> dict[UUID, str]:
    """Return what notifications about the caller's own endpoints say now."""
    own = Endpoint.objects.filter(owner=caller.email).only("name", "pause_reason")
    return {endpoint.pk: f"{endpoint.name}: {endpoint.reason_in_words or gettext('resumed')}" for endpoint in own}


def deliveries_of(caller: Caller, endpoint_id: UUID | str) -> QuerySet[Delivery]:
    """Return the deliveries to an endpoint, newest first. Raises NotFound as `get_endpoint`."""
    return Delivery.objects.filter(endpoint=get_endpoint(caller, endpoint_id)).order_by("-created_at")


def with_latest_deliveries(rows: QuerySet[Endpoint], most: int) -> QuerySet[Endpoint]:
    """Load the `most` newest deliveries of each endpoint into its attribute `latest`, in one query for all."""
    newest = Delivery.objects.order_by("-created_at")[:most]
    return rows.prefetch_related(Prefetch("deliveries", queryset=newest, to_attr="latest"))


def get_endpoint(caller: Caller, endpoint_id: UUID | str) -> Endpoint:
    endpoint = endpoints_of(caller).filter(pk=validate(Id, endpoint_id, "endpoint_id")).first()
    if endpoint is None:
        raise NotFound(gettext("you have no such webhook endpoint"), field="endpoint_id")
    return endpoint


def create_endpoint(caller: Caller, operation: CreateEndpoint) -> tuple[Endpoint, str]:
    """Create an endpoint of the caller. Returns it with its secret, which is not stored and can't be shown again."""
    require_user(caller)
    _require_subscriber(caller)
    url = check_url(operation.url)
    if Endpoint.objects.filter(owner=caller.email).count() >= MAX_ENDPOINTS:
        raise LimitReached(
            gettext(
                "you have %(max_endpoints)s webhook endpoints, the most there may be: let one of them take these "
                "events, too"
            )
            % {"max_endpoints": MAX_ENDPOINTS}
        )
    nonce = signing.new_nonce()
    secret = signing.secret_of(nonce)
    endpoint = Endpoint.objects.create(
        owner=caller.email,
        set_up_by=caller.email,
        name=operation.name,
        url=url,
        kinds=_in_order(operation.kinds),
        with_texts=operation.with_texts,
        nonce=nonce,
        secret_digest=signing.digest_of(secret),
    )
    return endpoint, secret


def update_endpoint(caller: Caller, operation: UpdateEndpoint) -> Endpoint:
    """Change an endpoint. Deliveries that are waiting go to the new URL."""
    changes: dict[str, Any] = {
        name: value
        for name, value in operation.explicit_values("name", "url", "kinds", "with_texts").items()
        if value is not None
    }  # fmt: skip
    if "url" in changes:
        changes["url"] = check_url(changes["url"])
    if "kinds" in changes:
        changes["kinds"] = _in_order(changes["kinds"])
    endpoint = get_endpoint(caller, operation.endpoint_id)
    if changes:
        Endpoint.objects.filter(pk=endpoint.pk).update(**changes)
        endpoint.refresh_from_db()
    return endpoint


def rotate_secret(caller: Caller, *, endpoint_id: UUID | str) -> tuple[Endpoint, str]:
    """Replace the secret. Returns the new one; requests are signed with both for a day.

    After a change of SECRET_KEY, or a hand-over, the previous secret is not used: it is unknown, or known to others.
    """
    with transaction.atomic():
        endpoint = Endpoint.objects.select_for_update().get(pk=get_endpoint(caller, endpoint_id).pk)
        is_trusted = signing.is_known(endpoint) and endpoint.set_up_by == endpoint.owner
        endpoint.previous_nonce = endpoint.nonce if is_trusted else ""
        endpoint.nonce = signing.new_nonce()
        secret = signing.secret_of(endpoint.nonce)
        endpoint.secret_digest = signing.digest_of(secret)
        endpoint.rotated_at = timezone.now()
        endpoint.save(update_fields=["previous_nonce", "nonce", "secret_digest", "rotated_at"])
    return endpoint, secret


def pause_endpoint(caller: Caller, *, endpoint_id: UUID | str) -> Endpoint:
    """Pause an endpoint. Events that occur until it is resumed are not sent to it. Pausing again changes nothing."""
    endpoint = get_endpoint(caller, endpoint_id)
    reason = pause_reasons.BY_OWNER if caller.email == endpoint.owner else pause_reasons.BY_ADMIN
    Endpoint.objects.filter(pk=endpoint.pk, paused_at=None).update(paused_at=timezone.now(), pause_reason=reason)
    endpoint.refresh_from_db()
    return endpoint


def resume_endpoint(caller: Caller, *, endpoint_id: UUID | str) -> Endpoint:
    """Resume a paused endpoint. Deliveries that were waiting are sent at once.

    Raises Forbidden if anybody but the owner resumes an endpoint that was handed over: the owner confirms its URL.
    """
    with transaction.atomic():
        endpoint = Endpoint.objects.select_for_update().get(pk=get_endpoint(caller, endpoint_id).pk)
        if endpoint.owner == caller.email:
            _require_subscriber(caller)
            endpoint.set_up_by = caller.email
        elif endpoint.set_up_by != endpoint.owner:
            raise Forbidden(gettext("was handed over: only its new owner can resume it"), field="endpoint_id")
        if not signing.is_known(endpoint):
            raise Conflict(gettext("has a secret that is no longer known: rotate it first"), field="endpoint_id")
        check_url(endpoint.url)
        endpoint.paused_at = None
        endpoint.pause_reason = ""
        endpoint.failing_since = None
        endpoint.save(update_fields=["set_up_by", "paused_at", "pause_reason", "failing_since"])
        waiting = Delivery.objects.filter(endpoint=endpoint, state=DeliveryState.WAITING)
        if waiting.update(attempts=0, next_try_at=timezone.now()):
            transaction.on_commit(events.queue_sending)
    return endpoint


def delete_endpoint(caller: Caller, *, endpoint_id: UUID | str) -> Endpoint:
    """Delete an endpoint with its deliveries, including those that were not sent."""
    endpoint = get_endpoint(caller, endpoint_id)
    Endpoint.objects.filter(pk=endpoint.pk).delete()
    return endpoint


def send_test_event(caller: Caller, *, endpoint_id: UUID | str) -> Delivery:
    """Queue an event of the kind TEST for one endpoint."""
    endpoint = _active(get_endpoint(caller, endpoint_id))
    with transaction.atomic():
        delivery = Delivery.objects.create(endpoint=endpoint, kind=events.TEST)
        transaction.on_commit(events.queue_sending)
    return delivery


def repeat_delivery(caller: Caller, *, delivery_id: UUID | str) -> Delivery:
    """Send a delivery again, with the same webhook-id and what the owner of the endpoint may read now."""
    visible = Delivery.objects.filter(endpoint__in=endpoints_of(caller)).select_related("endpoint")
    delivery = visible.filter(pk=validate(Id, delivery_id, "delivery_id")).first()
    if delivery is None:
        raise NotFound(gettext("you have no such delivery"), field="delivery_id")
    _active(delivery.endpoint)
    with transaction.atomic():
        Delivery.objects.filter(pk=delivery.pk).update(
            state=DeliveryState.WAITING, attempts=0, next_try_at=timezone.now(), error="", status_code=None
        )
        transaction.on_commit(events.queue_sending)
    delivery.refresh_from_db()
    return delivery


def _active(endpoint: Endpoint) -> Endpoint:
    if endpoint.paused_at is not None:
        raise Conflict(
            gettext("is paused (%(pause_reason)s): resume it first") % {"pause_reason": endpoint.reason_in_words},
            field="endpoint_id",
        )
    return endpoint


def _require_subscriber(caller: Caller) -> None:
    if not may_have_endpoints(caller):
        raise Forbidden(
            gettext("the operator lets events be sent for %(people)s only") % {"people": settings.WEBHOOK_SUBSCRIBERS}
        )


def _in_order(kinds: list[str]) -> list[str]:
    return [kind for kind in events.KINDS if kind in kinds]
