"""E-mail, if an SMTP server is configured.

A mail about memories is written when it is sent: its recipient is loaded with `load_recipient`, and its content is read
as that person. So nobody gets a text that they may no longer read, and nothing is queued except ids. Subject and text
are made within `in_language_of` the recipient.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from foundation.database import connections
from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.accounts import names
from memory_project.models import User
from memory_project.web import locale

log = logging.getLogger(__name__)


def is_configured() -> bool:
    return bool(settings.EMAIL_HOST)


def load_recipient(person_id: int) -> tuple[User, Caller] | None:
    """Load a person and their current permissions. Return None if the account is inactive or deleted."""
    person = User.objects.filter(pk=person_id, is_active=True).first()
    if person is None:
        return None
    try:
        return person, build_caller(person, channel="mail")
    except Forbidden:
        return None


@contextmanager
def in_language_of(person: User) -> Iterator[None]:
    """Write texts, dates and numbers within the block in the language and time zone of a person's account."""
    with names.read_once(), locale.using(person.language or settings.LANGUAGE_CODE, person.time_zone):
        yield


def send(people: Sequence[str], subject: str, template: str, context: dict[str, Any]) -> bool:
    """Send an e-mail. Returns whether the SMTP server accepted it; a failure is logged and never raised."""
    if not is_configured():
        return False
    text = render_to_string(template, {**context, "site": settings.COMMONPLACE_URL})
    message = EmailMessage(" ".join(subject.split()), text, settings.DEFAULT_FROM_EMAIL, list(people))
    connections.close_if_pooled()  # hold no database connection while waiting for the SMTP server
    try:
        return bool(message.send())
    except OSError as error:  # smtplib's errors are OSErrors
        log.warning("mail to %s was not sent: %s", ", ".join(people), error)
        return False
