"""Chat channels: once a day, the numbers of a persona's waiting insights and stale memories, for example in Slack.

No text of a memory is ever sent. A channel's host must be listed in WEBHOOK_HOSTS, and its address obeys the rules of
webhooks, whose requests it shares. It is no webhook endpoint: it belongs to the installation and not to a person, its
URL is a secret, and its body is read by people.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import connections, identity
from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona
from knowledge.insights import queries as curation
from memories import queries
from memories.models import Status, Visibility
from memories.retrieval.filters import ANY_TIME, Filters, visible_rows
from memory_project.models import Webhook
from memory_project.notifications.webhooks import posting
from memory_project.notifications.webhooks.pause_reasons import in_words

INTERVAL = timedelta(hours=20)  # once a day, with some slack because the task runs once an hour


def check_url(url: str) -> str:
    """Return the URL as it is requested. Raises Invalid unless webhooks may call it and its host is listed."""
    checked = posting.check_url(url.strip())
    host = urlsplit(checked).hostname or ""
    if host not in map(_ascii, settings.WEBHOOK_HOSTS):
        listed = ", ".join(settings.WEBHOOK_HOSTS)
        allowed = f"https:// on {listed}" if listed else "none until WEBHOOK_HOSTS is set"
        raise Invalid(gettext("%(hostname)r is not an allowed host") % {"hostname": host}, field="url", allowed=allowed)
    return checked


def _ascii(host: str) -> str:
    """Return the form of a host name that a request has, for names with other letters."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return host


def save(caller: Caller, *, persona: Persona, url: str, is_on: bool = True) -> Webhook:
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can set up chat channels"))
    if is_on and not url:
        raise Invalid(
            gettext("is missing: a channel without a URL can't be on"), field="url", allowed=gettext("an https URL")
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
        stale=visible_rows(everything, Filters(statuses=[Status.STALE], persona=persona, validity=ANY_TIME)).exclude(
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
        raise Forbidden(gettext("only operators can test chat channels"))
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
    try:
        checked = check_url(url)  # the operator may have taken the host off the list
    except Invalid as error:
        return error.message
    request = posting.EventRequest({"Content-Type": "application/json"}, json.dumps(body))
    (answer,) = posting.post_all(checked, [request])
    return in_words(answer.error)


def send_due() -> str:
    """Post to each channel that is due and whose persona has anything waiting."""
    now = timezone.now()
    sent_count = 0
    for pk in list(Webhook.objects.filter(is_on=True).order_by("pk").values_list("pk", flat=True)):
        # Sending to the channels before may have taken minutes, so the channel is loaded now.
        webhook = Webhook.objects.select_related("persona").filter(pk=pk, is_on=True).first()
        is_due = webhook is not None and (webhook.tried_at is None or webhook.tried_at < now - INTERVAL)
        if webhook is not None and is_due and any(counts(webhook.persona.name).values()):
            sent_count += not send(webhook)
    return f"{sent_count} sent"
