"""Whose request it is, as far as scheduling needs to know.

This grants nothing. Authentication reads the token or session again for each request.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.utils import timezone

from memory_project.accounts import connected_apps, issuer
from memory_project.accounts.bearer import PREFIX, digest
from memory_project.models import ApiToken

KNOWN_FOR_S = 60.0
MAX_KNOWN = 20_000
MAX_TOKEN = 200  # characters; ours are much shorter


class Recognition:
    """Remembers whose token or session it is for KNOWN_FOR_S. Unknown ones are looked up each time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()  # person and time by credential

    def remembered(self, key: str) -> str:
        """Return the person, or "" if the credential has to be looked up."""
        person, at = self._known.get(key, ("", 0.0))
        return person if time.monotonic() - at < KNOWN_FOR_S else ""

    def look_up(self, key: str, find: Callable[[], str]) -> str:
        person = find()
        self._known.pop(key, None)
        if person:
            self._known[key] = (person, time.monotonic())
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return person


def owner_of_token(text: str) -> str:
    """Return the primary key of the token's owner, or "" if the token is not valid. Costs one indexed query."""
    if issuer.is_candidate(text):
        issued = issuer.find(text)
        return str(issued.user.pk) if issued else ""
    if len(text) > MAX_TOKEN:
        return ""
    if not text.startswith(PREFIX):
        return connected_apps.owner_of(text)
    in_force = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    tokens = ApiToken.objects.filter(in_force, digest=digest(text), revoked_at=None, user__is_active=True)
    return str(tokens.values_list("user_id", flat=True).first() or "")


def owner_of_session(key: str) -> str:
    """Return the primary key of the person who is signed in, or "" if there is no such session."""
    session = Session.objects.filter(session_key=key, expire_date__gt=timezone.now()).first()
    return str(session.get_decoded().get(SESSION_KEY, "")) if session else ""
