"""The owner of a token or session, for scheduling only.

This grants nothing. Authentication reads the token or session again for each request.
"""

from __future__ import annotations

from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.utils import timezone

from memory_project.accounts import connected_apps, issuer
from memory_project.models import ApiToken
from memory_project.web.bearer import PREFIX, digest

MAX_TOKEN = 200  # characters; ours are much shorter


def owner_of(token: str, session: str) -> str:
    """Return the primary key of the person whose token or session it is, or "" if it is not valid."""
    return owner_of_token(token) if token else owner_of_session(session)


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
