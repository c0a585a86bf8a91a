"""E-mail, if an SMTP server is configured."""

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
