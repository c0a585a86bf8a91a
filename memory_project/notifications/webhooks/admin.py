"""Webhook endpoints and deliveries of all people, for admins. People create their own on the page Webhooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from foundation.operations.errors import DomainError
from memories.admin.base import AdminsOnly, admin_caller, moment
from memories.admin.rows import Link
from memory_project.notifications.webhooks import endpoints, sending
from memory_project.notifications.webhooks.models import Delivery, Endpoint

DELIVERIES_SHOWN = 20


def for_each(model_admin: admin.ModelAdmin[Any], request: HttpRequest, rows: Any, act: Callable[[Any], Any]) -> None:
    """Do something with each selected row, and report how many succeeded and what the others' errors are."""
    done = 0
    errors = []
    for row in rows:
        try:
            act(row)
        except DomainError as error:
            errors.append(f"{row}: {error.message}")
        else:
            done += 1
    if done:
        text = ngettext("%(n)s row done.", "%(n)s rows done.", done) % {"n": done}
        model_admin.message_user(request, text, messages.SUCCESS)
    for text in errors[:10]:
        model_admin.message_user(request, text, messages.ERROR)


@admin.register(Endpoint)
class EndpointAdmin(AdminsOnly):
    list_display = ["name", "owner", "host", "kinds", "with_texts", "failing_since", "paused_at", "reason_in_words"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "with_texts", "created_at"]
    search_fields = ["name", "owner"]
    exclude = ["url", "nonce", "previous_nonce", "secret_digest"]  # a URL may contain a secret
    readonly_fields = ["host"]
    actions = ["pause", "resume", "send_test_event"]

    def links(self, request: HttpRequest, row: Endpoint) -> Mapping[str, Sequence[Link]]:
        deliveries = endpoints.deliveries_of(admin_caller(request), row.pk)[:DELIVERIES_SHOWN]
        address = "admin:webhooks_delivery_change"
        return {
            gettext("Deliveries"): [
                Link(one.kind, reverse(address, args=[one.pk]), f"{one.get_state_display()}, {moment(one.created_at)}")
                for one in deliveries
            ]
        }

    @admin.display(description=gettext_lazy("host"))
    def host(self, endpoint: Endpoint) -> str:
        return endpoint.host

    @admin.action(description=gettext_lazy("Pause"))
    def pause(self, request: HttpRequest, rows: QuerySet[Endpoint]) -> None:
        caller = admin_caller(request)
        for_each(self, request, rows, lambda row: endpoints.pause_endpoint(caller, endpoint_id=row.pk))

    @admin.action(description=gettext_lazy("Resume"))
    def resume(self, request: HttpRequest, rows: QuerySet[Endpoint]) -> None:
        caller = admin_caller(request)
        for_each(self, request, rows, lambda row: endpoints.resume_endpoint(caller, endpoint_id=row.pk))

    @admin.action(description=gettext_lazy("Send a test event"))
    def send_test_event(self, request: HttpRequest, rows: QuerySet[Endpoint]) -> None:
        caller = admin_caller(request)
        for_each(self, request, rows, lambda row: endpoints.send_test_event(caller, endpoint_id=row.pk))


@admin.register(Delivery)
class DeliveryAdmin(AdminsOnly):
    list_display = ["created_at", "endpoint", "kind", "state", "status_code", "attempts", "next_try_at", "error"]
    list_filter = ["state", "kind", "status_code", "created_at"]
    list_select_related = ["endpoint"]
    search_fields = ["endpoint__name", "endpoint__owner", "record_id"]
    readonly_fields = ["message_id", "body"]
    actions = ["repeat"]

    @admin.display(description=gettext_lazy("body, as it would be sent now"))
    def body(self, delivery: Delivery) -> SafeString:
        return format_html("<code>{}</code>", sending.preview(delivery))

    @admin.action(description=gettext_lazy("Repeat"))
    def repeat(self, request: HttpRequest, rows: QuerySet[Delivery]) -> None:
        caller = admin_caller(request)
        for_each(self, request, rows, lambda row: endpoints.repeat_delivery(caller, delivery_id=row.pk))
