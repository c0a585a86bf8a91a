"""What people are told outside of the portal, by whatever notifiers are set up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from django.conf import settings
from django.template.loader import render_to_string

from memories.contract.registry import Registry
from memories.database import connections

log = logging.getLogger(__name__)


class Notifier(Protocol):
    """One way to reach people, such as e-mail or a chat."""

    def is_on(self) -> bool:
        """Whether an operator has set it up."""
        ...

    def send(self, people: Sequence[str], subject: str, text: str) -> bool:
        """Tells the people with these addresses; whether it was handed over. Raises OSError."""
        ...


NOTIFIERS: Registry[Notifier] = Registry("notifiers")


def is_on() -> bool:
    return any(notifier.is_on() for notifier in NOTIFIERS.values())


def send(people: Sequence[str], subject: str, template: str, context: dict[str, Any]) -> bool:
    """Whether anybody took it; a failure is logged and never stops what it is about."""
    ways = [(name, notifier) for name, notifier in NOTIFIERS.items() if notifier.is_on()]
    if not ways:
        return False
    text = render_to_string(template, {**context, "site": settings.COMMONPLACE_URL})
    connections.release()  # other servers are waited for without a database connection
    deliveries = [_handed_over(name, notifier, people, " ".join(subject.split()), text) for name, notifier in ways]
    return any(deliveries)


def _handed_over(name: str, notifier: Notifier, people: Sequence[str], subject: str, text: str) -> bool:
    try:
        return notifier.send(people, subject, text)
    except OSError as error:  # smtplib's and httpx's errors of connections are OSErrors
        log.warning("%s to %s was not sent: %s", name, ", ".join(people), error)
        return False
