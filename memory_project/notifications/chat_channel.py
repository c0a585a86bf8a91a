"""Webhooks that post the numbers of waiting insights and stale memories to a chat channel, for example in Slack.

Each persona may have one.

No text of a memory is ever sent. To prevent server-side request forgery, a webhook may only call hosts listed in
WEBHOOK_HOSTS, at public addresses and without redirects.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import connections, identity
from foundation.operations.errors import Forbidden, Invalid
from foundation.outbound import bounded_http
from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona
from knowledge.insights import queries as curation
from memories import queries
from memories.models import Status, Visibility
from memories.retrieval.scope import ANY_TIME, Filters, in_scope
from memory_project.models import Webhook

TIMEOUT_S = 10.0
MAX_RESPONSE_BYTES = 10_000
INTERVAL = timedelta(hours=20)  # once a day, with some slack because the task runs once an hour


def check_url(url: str) -> str:
    """Return the URL without surrounding spaces. Raises Invalid unless it is an allowed https URL."""
    hosts = settings.WEBHOOK_HOSTS
    allowed = f"https:// on {', '.join(hosts)}" if hosts else "none until WEBHOOK_HOSTS is set"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise Invalid(gettext("is not a URL"), field="url", allowed=allowed) from None
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.password or port not in (None, 443):
        raise Invalid(gettext("must be an https URL without credentials and port"), field="url", allowed=allowed)
    if parts.hostname.lower() not in hosts:
        raise Invalid(
            gettext("%(hostname)r is not an allowed host") % {"hostname": parts.hostname}, field="url", allowed=allowed
        )
    return url.strip()


def save(caller: Caller, *, persona: Persona, url: str, is_on: bool = True) -> Webhook:
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can set up webhooks"))
    if is_on and not url:
        raise Invalid(
            gettext("is missing: a webhook without a URL can't be on"), field="url", allowed=gettext("an https URL")
        )
    defaults = {"url": check_url(url) if url else "", "is_on": is_on, "last_error": ""}
    return Webhook.objects.update_or_create(persona=persona, defaults=defaults)[0]


@identity.service("operation")
def counts(persona: str) -> dict[str, int]:
    """Count the insights and stale memories of a persona that need attention."""
    everything = system_caller()
    return queries.capped_counts(
        waiting=curation.waiting(everything).filter(record__persona=persona),
        approved=curation.backlog(everything).filter(record__persona=persona),
        # Private memories are left out, because the channel has other readers than their owners.
        stale=in_scope(everything, Filters(statuses=[Status.STALE], persona=persona, validity=ANY_TIME)).exclude(
            visibility=Visibility.PRIVATE
        ),
    )


def message(persona: str, numbers: dict[str, int]) -> dict[str, str]:
    """Build the JSON body that Slack and Mattermost accept."""
    parts = [
        f"{numbers['waiting']} insights are waiting for review",
        f"{numbers['approved']} are approved but not applied",
        f"{numbers['stale']} memories may no longer be true",
    ]
    return {"text": f"{persona}: {', '.join(parts)}. {settings.COMMONPLACE_URL}{reverse('review')}"}


def try_out(caller: Caller, *, persona: Persona, url: str) -> tuple[str, str]:
    """Post the current counts of a persona to a URL that need not be saved. Returns the text and the error, or ""."""
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can test webhooks"))
    body = message(str(persona), counts(persona.name))
    connections.close_if_pooled()
    return body["text"], post(url, body)


def send(webhook: Webhook) -> str:
    """Post the counts and store the result. Returns the error message, or "" on success."""
    numbers = counts(webhook.persona.name)
    connections.close_if_pooled()  # hold no database connection while waiting for another server
    error = post(webhook.url, message(str(webhook.persona), numbers))
    now = timezone.now()
    changes: dict[str, Any] = {"last_error": error[:500], "tried_at": now}
    Webhook.objects.filter(pk=webhook.pk).update(
        **changes, **({} if error else {"sent_at": now, "last_counts": numbers})
    )
    return error


def post(url: str, body: dict[str, str]) -> str:
    """Send a POST request. Returns the error message, or "" on success."""
    import httpx  # noqa: PLC0415 - takes a tenth of a second, which other processes save

    from foundation.outbound import public_http  # noqa: PLC0415 - needs httpx

    try:
        host = urlsplit(check_url(url)).hostname
        with (
            httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, transport=public_http.PublicTransport()) as client,
            client.stream("POST", url, json=body) as response,
        ):
            bounded_http.read(response, MAX_RESPONSE_BYTES)
            return "" if response.is_success else f"{host} responded with status {response.status_code}"
    except Invalid as error:
        return error.message
    except public_http.NotPublic as error:
        return str(error)
    except (httpx.HTTPError, httpx.InvalidURL, bounded_http.AnswerTooLarge) as error:
        return f"{type(error).__name__}: {error}"


def send_due() -> str:
    """Send each webhook that is due and whose persona has anything waiting."""
    now = timezone.now()
    sent_count = 0
    for pk in list(Webhook.objects.filter(is_on=True).order_by("pk").values_list("pk", flat=True)):
        # Sending to the channels before may have taken minutes, so the webhook is loaded now.
        webhook = Webhook.objects.select_related("persona").filter(pk=pk, is_on=True).first()
        is_due = webhook is not None and (webhook.tried_at is None or webhook.tried_at < now - INTERVAL)
        if webhook is not None and is_due and any(counts(webhook.persona.name).values()):
            sent_count += not send(webhook)
    return f"{sent_count} sent"
