"""E-mail to people, if an SMTP server is configured."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.template.loader import render_to_string

from memories.database import connections

log = logging.getLogger(__name__)


def is_configured() -> bool:
    return bool(settings.EMAIL_HOST)


def send(people: Sequence[str], subject: str, template: str, context: dict[str, Any]) -> bool:
    """Return whether the SMTP server accepted the message. A failure is logged and never stops the caller."""
    if not is_configured():
        return False
    text = render_to_string(template, {**context, "site": settings.COMMONPLACE_URL})
    message = EmailMessage(" ".join(subject.split()), text, settings.DEFAULT_FROM_EMAIL, list(people))
    connections.close_if_pooled()  # no database connection is held while another server is waited for
    try:
        return bool(message.send())
    except OSError as error:  # errors of smtplib are OSErrors
        log.warning("mail to %s was not sent: %s", ", ".join(people), error)
        return False
