"""Accounts of people who sign in at the company's issuer: linking, creation, and what their groups give them.

An account is found by issuer and subject. Its e-mail address counts only once, when it is linked, and only if the
issuer has verified it: whoever can write any address into a profile must not get the account of another person.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Forbidden
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from memory_project.accounts import people
from memory_project.models import CompanyGroup, CompanyIdentity, User

MAX_GROUPS = 10_000


@dataclass(frozen=True)
class Grants:
    """What the groups of a person give."""

    personas: frozenset[str] = frozenset()
    rights: frozenset[str] = frozenset()
    is_admin: bool = False


@identity.service("sign_in")
def sign_in(*, claims: Mapping[str, Any]) -> User:
    """Return the account of the person whom verified claims describe, with the access that their groups give now.

    Raises Forbidden if there is no such account and none may be created, or if the account is deactivated. An account
    whose groups give nothing any more is deactivated first.
    """
    groups = groups_in(claims)
    try:
        with transaction.atomic():
            person = _linked(claims) or _link(claims, groups)
            refusal = _update(person, groups)
    except IntegrityError:  # the same person has just signed in in another browser
        raise Forbidden(gettext("you are signing in twice at the same time; try again")) from None
    if refusal:
        raise Forbidden(refusal)
    return person


def groups_in(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the person's groups. The claim may be nested, as `realm_access.roles` is."""
    name = settings.SSO_GROUPS_CLAIM
    value: Any = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value is None and name in _mapping(claims.get("_claim_names")):
        # Microsoft Entra leaves out the groups of people who are in more than 200
        raise Forbidden(
            gettext("you are in too many groups to be sent; the admin of your company's sign-in must filter them")
        )
    if value is None:
        return frozenset()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or len(names) > MAX_GROUPS or not all(isinstance(one, str) for one in names):
        raise Forbidden(
            gettext("the claim %(name)r of your company's sign-in is not a list of at most %(max_groups)s names")
            % {"name": name, "max_groups": f"{MAX_GROUPS:,}"}
        )
    return frozenset(names)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _linked(claims: Mapping[str, Any]) -> User | None:
    link = CompanyIdentity.objects.filter(issuer=claims["iss"], subject=claims["sub"]).first()
    return User.objects.select_for_update().get(pk=link.person_id) if link else None


def _link(claims: Mapping[str, Any], groups: frozenset[str]) -> User:
    """Link the account with the verified e-mail address of the claims, or create it."""
    email = _verified_email(claims)
    person = User.objects.select_for_update().filter(email=email).first()
    if person and not person.is_active:
        raise Forbidden(gettext("this account is disabled"))
    if _mapping_is_used() and not CompanyGroup.objects.filter(name__in=groups).exists():
        raise Forbidden(gettext("none of your groups gives access to Commonplace; ask an admin"))
    if person is None:
        person = _create(email, claims)
    link = CompanyIdentity.objects.filter(person=person).first()
    if link and link.issuer == claims["iss"]:
        raise Forbidden(
            gettext("another identity of your company is linked with this account; an admin can remove that link")
        )
    # a company that has changed its issuer links each person again
    values = {"issuer": claims["iss"], "subject": claims["sub"], "linked_at": timezone.now()}
    CompanyIdentity.objects.update_or_create(person=person, defaults=values)
    return person


def _verified_email(claims: Mapping[str, Any]) -> str:
    email = str(claims.get("email") or "").strip().lower()
    try:
        validate_email(email)
    except ValidationError:
        raise Forbidden(gettext("your company's sign-in did not send your e-mail address")) from None
    if claims.get("email_verified", settings.SSO_EMAILS_VERIFIED) is not True:
        raise Forbidden(gettext("your company's sign-in has not verified your e-mail address"))
    return email


def _create(email: str, claims: Mapping[str, Any]) -> User:
    if not settings.SSO_CREATE_ACCOUNTS:
        raise Forbidden(gettext("you have no account here; ask an admin to invite you"))
    if settings.SSO_DOMAINS and email.rpartition("@")[2] not in settings.SSO_DOMAINS:
        raise Forbidden(
            gettext("accounts are created for addresses of %(names)s only") % {"names": ", ".join(settings.SSO_DOMAINS)}
        )
    name = claims.get("name")
    return User.objects.create_user(email, None, name=name[:120] if isinstance(name, str) else "")


def _mapping_is_used() -> bool:
    return CompanyGroup.objects.exists()


def grants_of(groups: Iterable[str]) -> Grants:
    rows = CompanyGroup.objects.filter(name__in=groups).prefetch_related("personas")
    return Grants(
        personas=frozenset(persona.name for row in rows for persona in row.personas.all()),
        rights=frozenset(right for row in rows for right in people.GROUPS if getattr(row, f"is_{right}")),
        is_admin=any(row.is_admin for row in rows),
    )


def _update(person: User, groups: frozenset[str]) -> str:
    """Give an account what its groups give, and take what they no longer give. Return why it may not sign in, or ""."""
    link = CompanyIdentity.objects.select_for_update().get(person=person)
    if not _mapping_is_used():  # everybody whom the issuer lets in may sign in; admins give personas by hand
        return "" if person.is_active else "this account is disabled"
    if not CompanyGroup.objects.filter(name__in=groups).exists():
        if person.is_active:
            _apply(person, link, Grants())
            people.end_access(build_caller(person, channel="portal"), person=person)
            CompanyIdentity.objects.filter(pk=link.pk).update(ended_at=timezone.now())
        return "none of your groups gives access to Commonplace any more; your account is disabled"
    if not person.is_active and link.ended_at is None:  # an admin has deactivated it
        return "this account is disabled"
    _apply(person, link, grants_of(groups))
    if not person.is_active:
        User.objects.filter(pk=person.pk).update(is_active=True)
        person.is_active = True
    CompanyIdentity.objects.filter(pk=link.pk).update(ended_at=None)
    return ""


def _apply(person: User, link: CompanyIdentity, grants: Grants) -> None:
    """Replace what the groups gave at the last sign-in with `grants`, and keep what was given by hand."""
    held = set(PersonaMembership.objects.filter(user=person).values_list("persona__name", flat=True))
    by_hand = held - set(link.personas)
    wanted = by_hand | grants.personas
    was_admin = person.is_superuser
    if wanted != held:
        people.set_personas(person, list(Persona.objects.filter(name__in=wanted).order_by("name")))
    rights = set(people.rights_of(person))
    rights_by_hand = rights - set(link.rights)
    is_admin_by_hand = person.is_superuser and not link.is_admin
    if person.is_superuser != (is_admin_by_hand or grants.is_admin):
        person.is_superuser = is_admin_by_hand or grants.is_admin
        person.save(update_fields=["is_superuser"])
        people.give_rights(person, sorted(rights_by_hand | grants.rights))
    elif rights_by_hand | grants.rights != rights:
        people.give_rights(person, sorted(rights_by_hand | grants.rights))
    if was_admin and not person.is_superuser:
        people.access_changed(person)  # copies of what only an admin may read
    CompanyIdentity.objects.filter(pk=link.pk).update(
        personas=sorted(grants.personas - by_hand),
        rights=sorted(grants.rights - rights_by_hand),
        is_admin=grants.is_admin and not is_admin_by_hand,
    )
