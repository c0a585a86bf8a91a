"""Why an endpoint is paused: stored in English, as REST returns it, and shown in the reader's language."""

from __future__ import annotations

import re

from django.utils.translation import gettext, gettext_noop

NO_ACCOUNT = gettext_noop("the owner's account no longer exists")
DISABLED = gettext_noop("the owner's account is disabled")
NOT_ALLOWED = gettext_noop("the operator no longer lets events be sent for its owner (WEBHOOK_SUBSCRIBERS)")
HANDED_OVER = gettext_noop("it was handed over: check its URL, rotate its secret and resume it")
SECRET_UNKNOWN = gettext_noop(
    "its secret is no longer known, because SECRET_KEY has changed: rotate the secret and resume it"
)
GONE = gettext_noop("the receiver says that it is gone (status 410)")
BY_OWNER, BY_ADMIN = gettext_noop("paused by its owner"), gettext_noop("paused by an admin")
FAILING = gettext_noop("every request has failed for a day; the last one: %(error)s")
STATUS = gettext_noop("responded with status %(status)s")
NO_RESPONSE = gettext_noop("no response within %(seconds)s seconds")


def in_words(reason: str) -> str:
    """Return a stored reason in the reader's language. Errors of other programs stay as they are."""
    for template in (FAILING, STATUS, NO_RESPONSE):
        if values := _values(template, reason):
            return gettext(template) % {name: in_words(value) for name, value in values.items()}
    return gettext(reason) if reason else ""


def _values(template: str, text: str) -> dict[str, str]:
    """Return the values with which the template makes the text, or {} if it can't."""
    head, name, tail = re.split(r"%\((\w+)\)s", template)
    is_made = text.startswith(head) and text.endswith(tail) and len(text) > len(head) + len(tail)
    return {name: text[len(head) : len(text) - len(tail)]} if is_made else {}
