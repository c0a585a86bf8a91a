"""Links with which an operator signs a person in, for the time when the company's issuer can't.

A link is signed, not stored. It names the person's last sign-in, so it works once, and is void after any other sign-in.
"""

from __future__ import annotations

from django.conf import settings
from django.core import signing
from django.urls import reverse
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from memory_project.models import User

LIFETIME_S = 15 * 60
SALT = "memory_project.accounts.sign_in_links"


def create(email: str) -> str:
    """Return a link for the active account with this e-mail address. Raises NotFound if there is none."""
    person = User.objects.filter(email=email.strip().lower(), is_active=True).first()
    if person is None:
        raise NotFound(gettext("there is no active person with this e-mail address"), field="email")
    token = signing.dumps([person.pk, _state_of(person)], salt=SALT)
    return f"{settings.COMMONPLACE_URL}{reverse('sign-in-link', args=[token])}"


def find_person(token: str) -> User | None:
    """Return whom a link signs in, or None if it is forged, too old or used."""
    try:
        person_id, state = signing.loads(token, salt=SALT, max_age=LIFETIME_S)
    except signing.BadSignature:
        return None
    person = User.objects.filter(pk=person_id, is_active=True).first()
    return person if person and state == _state_of(person) else None


def _state_of(person: User) -> str:
    return f"{person.session_generation} {person.last_login}"
