"""One webhook a persona, such as a Slack channel's: how much waits, and where. No memory's text leaves this way.

Operators set it up; a host that they have not allowed, an address inside their network and a redirect are refused.
"""

from __future__ import annotations

import ipaddress
import socket
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from knowledge.insights import queries as curation
from memories import queries
from memories.contract.errors import Forbidden, Invalid
from memories.database import connections
from memories.identity.caller import Caller, system_caller
from memories.models import Persona, Status
from memories.outbox import bounded_http
from memories.retrieval.scope import Filters, in_scope
from memory_project.models import Webhook

TIMEOUT_S = 10.0
MAX_ANSWER = 10_000  # bytes that are read of an answer
EVERY = timedelta(hours=20)  # a schedule looks more often; a channel hears of it once a day


def check_url(url: str) -> str:
    """The address, if it may be called. Raises Invalid, naming what is allowed."""
    hosts = settings.WEBHOOK_HOSTS
    allowed = f"https:// on {', '.join(hosts)}" if hosts else "nothing yet: set WEBHOOK_HOSTS"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise Invalid("is not an address", field="url", allowed=allowed) from None
    if parts.scheme != "https" or not parts.hostname or parts.username or parts.password or port not in (None, 443):
        raise Invalid("is not a plain https address", field="url", allowed=allowed)
    if parts.hostname.lower() not in hosts:
        raise Invalid(f"{parts.hostname!r} is not an allowed host", field="url", allowed=allowed)
    return url.strip()


def public_address(host: str) -> str:
    """An address of the host outside of private networks; what is called is this one, whatever its name says later."""
    try:
        entries = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Invalid(f"{host} is not found ({error.strerror or error})", field="url") from None
    addresses = [str(entry[4][0]) for entry in entries]
    if private := [address for address in addresses if not ipaddress.ip_address(address.split("%")[0]).is_global]:
        raise Invalid(f"{host} is the private address {private[0]}", field="url", allowed="a public host")
    return addresses[0]


def save(*, caller: Caller, persona: Persona, url: str, is_on: bool = True) -> Webhook:
    """Sets a persona's webhook up; operators do."""
    if not caller.is_operator:
        raise Forbidden("only an operator sets webhooks up")
    defaults = {"url": check_url(url), "is_on": is_on, "last_error": ""}
    return Webhook.objects.update_or_create(persona=persona, defaults=defaults)[0]


def counts(persona: str) -> dict[str, int]:
    """What waits in one persona."""
    everything = system_caller()
    return queries.capped_counts(
        waiting=curation.waiting(everything).filter(record__persona=persona),
        approved=curation.backlog(everything).filter(record__persona=persona),
        stale=in_scope(everything, Filters(statuses=[Status.STALE], persona=persona)),
    )


def message(persona: str, numbers: dict[str, int]) -> dict[str, str]:
    """What Slack, Mattermost and their like take."""
    parts = [
        f"{numbers['waiting']} insights wait for review",
        f"{numbers['approved']} are approved and not applied",
        f"{numbers['stale']} memories may no longer be true",
    ]
    return {"text": f"{persona}: {', '.join(parts)}. {settings.COMMONPLACE_URL}{reverse('review')}"}


def send(webhook: Webhook) -> str:
    """Posts the counts now; returns what went wrong, or "". Both are kept for the operators' page."""
    numbers = counts(webhook.persona.name)
    connections.close_if_pooled()  # other servers are waited for without a database connection
    error = post(webhook.url, message(str(webhook.persona), numbers))
    now = timezone.now()
    changes: dict[str, Any] = {"last_error": error[:500], "tried_at": now}
    Webhook.objects.filter(pk=webhook.pk).update(
        **changes, **({} if error else {"sent_at": now, "last_counts": numbers})
    )
    return error


def post(url: str, body: dict[str, str]) -> str:
    """Calls the host by the address that was looked at. A redirect counts as refused: it could lead anywhere."""
    import httpx  # noqa: PLC0415 - a tenth of a second that no other process needs

    try:
        host = str(urlsplit(check_url(url)).hostname)
        address = public_address(host)
        target = httpx.URL(url).copy_with(host=address)
        with (
            httpx.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False) as client,
            client.stream(
                "POST", target, json=body, headers={"Host": host}, extensions={"sni_hostname": host}
            ) as response,
        ):
            bounded_http.read(response, MAX_ANSWER)
            return "" if response.is_success else f"{host} answered {response.status_code}"
    except Invalid as refusal:
        return refusal.message
    except (httpx.HTTPError, bounded_http.AnswerTooLarge) as fault:
        return f"{type(fault).__name__}: {fault}"


def send_due() -> str:
    """A schedule: once a day to each persona in which something waits."""
    now, sent_count = timezone.now(), 0
    for webhook in Webhook.objects.select_related("persona").filter(is_on=True):
        is_due = webhook.tried_at is None or webhook.tried_at < now - EVERY
        if is_due and any(counts(webhook.persona.name).values()):
            sent_count += not send(webhook)
    return f"{sent_count} sent"
