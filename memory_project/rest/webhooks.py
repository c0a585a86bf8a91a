"""Webhooks: where events are sent, and their deliveries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NotRequired
from uuid import UUID

import django_filters
from django.db.models import QuerySet
from typing_extensions import TypedDict

from foundation.operations.fields import Id
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memory_project.notifications.webhooks import endpoints
from memory_project.notifications.webhooks.models import Delivery, DeliveryState, Endpoint
from memory_project.notifications.webhooks.operations import CreateEndpoint, UpdateEndpoint
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint as RestEndpoint
from memory_project.rest.endpoints import route
from memory_project.rest.lists import Listing, each

TAG = "webhooks"
# A token for an agent must not be able to send what its owner may read to an address of the agent's choice.
ADMINISTRATION: dict[str, Any] = {"access": Access.ADMINISTRATION}


class WebhookResponse(TypedDict):
    id: str
    owner: str
    name: str
    url: str
    kinds: list[str]
    with_texts: bool
    created_at: str
    failing_since: str | None
    paused_at: str | None
    pause_reason: str
    secret: NotRequired[str]


class DeliveryResponse(TypedDict):
    id: str
    kind: str
    record_id: str | None
    state: str
    attempts: int
    status_code: int | None
    error: str
    created_at: str
    next_try_at: str | None


class DeletedResponse(TypedDict):
    deleted: bool


class DeliveryFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=DeliveryState.choices)
    kind = django_filters.CharFilter()


class ShowEndpoint(Operation):
    """Show where events are sent"""

    endpoint_id: Id


class RotateSecret(ShowEndpoint):
    """Replace the secret; requests are signed with both for a day"""


class PauseEndpoint(ShowEndpoint):
    """Pause sending"""


class ResumeEndpoint(ShowEndpoint):
    """Resume sending"""


class DeleteEndpoint(ShowEndpoint):
    """Delete an endpoint with its deliveries"""


class SendTest(ShowEndpoint):
    """Send a test event"""


class RepeatDelivery(Operation):
    """Send an event again"""

    delivery_id: Id


def _response(endpoint: Endpoint, secret: str = "") -> WebhookResponse:
    return response_of(WebhookResponse, endpoint, secret=secret)


def _delivery(row: Delivery) -> DeliveryResponse:
    return response_of(DeliveryResponse, row)


def _deliveries(caller: Caller, endpoint_id: UUID) -> QuerySet[Delivery]:
    return endpoints.deliveries_of(caller, endpoint_id)


def _create(caller: Caller, operation: CreateEndpoint) -> WebhookResponse:
    return _response(*endpoints.create_endpoint(caller, operation))


def _show(caller: Caller, operation: ShowEndpoint) -> WebhookResponse:
    return _response(endpoints.get_endpoint(caller, operation.endpoint_id))


def _update(caller: Caller, operation: UpdateEndpoint) -> WebhookResponse:
    return _response(endpoints.update_endpoint(caller, operation))


def _rotate(caller: Caller, operation: RotateSecret) -> WebhookResponse:
    return _response(*endpoints.rotate_secret(caller, endpoint_id=operation.endpoint_id))


def _pause(caller: Caller, operation: PauseEndpoint) -> WebhookResponse:
    return _response(endpoints.pause_endpoint(caller, endpoint_id=operation.endpoint_id))


def _resume(caller: Caller, operation: ResumeEndpoint) -> WebhookResponse:
    return _response(endpoints.resume_endpoint(caller, endpoint_id=operation.endpoint_id))


def _delete(caller: Caller, operation: DeleteEndpoint) -> DeletedResponse:
    endpoints.delete_endpoint(caller, endpoint_id=operation.endpoint_id)
    return {"deleted": True}


def _test(caller: Caller, operation: SendTest) -> DeliveryResponse:
    return _delivery(endpoints.send_test_event(caller, endpoint_id=operation.endpoint_id))


def _repeat(caller: Caller, operation: RepeatDelivery) -> DeliveryResponse:
    return _delivery(endpoints.repeat_delivery(caller, delivery_id=operation.delivery_id))


def _endpoint(operation_id: str, perform: Callable[..., Any], **options: Any) -> RestEndpoint:
    return RestEndpoint(operation_id, perform, **ADMINISTRATION, **options)


ENDPOINTS = Listing(
    "list_webhooks", endpoints.endpoints_of, each(_response), WebhookResponse, summary="List webhooks", **ADMINISTRATION
)
DELIVERIES = Listing(
    "list_deliveries",
    _deliveries,
    each(_delivery),
    DeliveryResponse,
    DeliveryFilter,
    summary="List the deliveries to an endpoint",
    **ADMINISTRATION,
)
ONE = "webhooks/<id:endpoint_id>/"

urlpatterns = [
    route(TAG, "webhooks/", get=ENDPOINTS, post=_endpoint("create_webhook", _create, status=201, is_secret=True)),
    route(
        TAG,
        ONE,
        get=_endpoint("show_webhook", _show),
        patch=_endpoint("update_webhook", _update),
        delete=_endpoint("delete_webhook", _delete),
    ),
    route(TAG, f"{ONE}deliveries/", get=DELIVERIES),
    route(TAG, f"{ONE}rotate/", post=_endpoint("rotate_webhook", _rotate, is_secret=True)),
    route(TAG, f"{ONE}pause/", post=_endpoint("pause_webhook", _pause)),
    route(TAG, f"{ONE}resume/", post=_endpoint("resume_webhook", _resume)),
    route(TAG, f"{ONE}test/", post=_endpoint("test_webhook", _test)),
    route(TAG, "webhooks/deliveries/<id:delivery_id>/repeat/", post=_endpoint("repeat_delivery", _repeat)),
]
