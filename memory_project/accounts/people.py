"""Management of accounts: invitations, rights, password links, deactivation and offboarding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import available_timezones

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models import F
from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext

from analysis import memory_copies
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from memories.models import HandOver
from memories.writing import hand_overs
from memory_project.accounts import mail
from memory_project.accounts.tokens import revoke_all
from memory_project.exchange.exports import services as exports
from memory_project.models import CompanyIdentity, User
from memory_project.web.client_address import sender_of

CURATORS, OPERATORS = "Curators", "Operators"
DEACTIVATED = "account"  # in HandOver.moved: the session generation of an account that the hand-over has deactivated
GROUPS = {"curator": CURATORS, "operator": OPERATORS}  # right → Django group whose members have it


def invite(
    caller: Caller, *, email: str, name: str = "", personas: Sequence[str] = (), rights: Sequence[str] = ()
) -> tuple[User, str, bool]:
    """Create an account without a password.

    Returns the account, the link for setting a password, and whether the link was sent by e-mail.
    """
    _require_admin(caller)
    address = validate(Annotated[str, Text(3, 254)], email, "email").lower()
    try:
        validate_email(address)
    except ValidationError:
        raise Invalid(
            gettext("%(address)r is not an e-mail address") % {"address": address[:80]}, field="email"
        ) from None
    rows = list(Persona.objects.filter(name__in=personas))
    if missing := set(personas) - {persona.name for persona in rows}:
        raise NotFound(gettext("there is no persona %(missing)r") % {"missing": sorted(missing)[0]}, field="personas")
    try:
        with transaction.atomic():
            user = User.objects.create_user(address, None, name=validate(Annotated[str, Text(0, 120)], name, "name"))
            set_personas(user, rows)
            give_rights(user, rights)
    except IntegrityError:
        raise Conflict(gettext("already has an account"), field="email") from None
    link = start_link(user)
    with mail.in_language_of(user):
        subject = gettext("You are invited to Commonplace")
        context = {"link": link, "by": caller.email}
        is_sent = mail.send([address], subject, "mail/invitation.txt", context)
    return user, link, is_sent


def set_personas(user: User, personas: Sequence[Persona]) -> None:
    """Replace a user's personas. The first becomes the default, unless the current default is among them."""
    current = PersonaMembership.objects.filter(user=user, is_default=True, persona__in=personas).first()
    default = current.persona_id if current else next((persona.pk for persona in personas), None)
    PersonaMembership.objects.filter(user=user).exclude(persona__in=personas).delete()
    for persona in personas:
        PersonaMembership.objects.update_or_create(
            user=user, persona=persona, defaults={"is_default": persona.pk == default}
        )
    access_changed(user)


def access_changed(user: User) -> None:
    """Delete copies of memories that a user may no longer read."""
    memory_copies.drop_copies_unreadable_by(user.email)


def give_rights(user: User, rights: Sequence[str]) -> None:
    """Replace a user's rights. `rights` are keys of GROUPS.

    Curators review insights and apply or roll back changesets. Operators manage the installation.
    """
    if unknown := set(rights) - set(GROUPS):
        raise Invalid(
            gettext("%(unknown)r is unknown") % {"unknown": sorted(unknown)[0][:40]},
            field="rights",
            allowed=", ".join(GROUPS),
        )
    for right, name in GROUPS.items():
        group, _ = Group.objects.get_or_create(name=name)
        if right in rights:
            user.groups.add(group)
        else:
            user.groups.remove(group)
    user.is_staff = bool(rights) or user.is_superuser
    user.save(update_fields=["is_staff"])


def rights_of(user: User) -> list[str]:
    names = set(user.groups.values_list("name", flat=True))
    return [right for right, name in GROUPS.items() if name in names]


def change(caller: Caller, *, person: User, personas: Sequence[str], rights: Sequence[str]) -> None:
    _require_admin(caller)
    with transaction.atomic():
        person = User.objects.select_for_update().get(pk=person.pk)
        set_personas(person, list(Persona.objects.filter(name__in=personas)))
        give_rights(person, rights)


def start_link(user: User) -> str:
    """Return a link for setting a password. It works once, within PASSWORD_RESET_TIMEOUT seconds.

    Without local passwords, return the address of the sign-in page.
    """
    if not settings.LOCAL_PASSWORDS:
        return f"{settings.COMMONPLACE_URL}{reverse('sign-in')}"
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    path = reverse("password_reset_confirm", args=[uid, default_token_generator.make_token(user)])
    return f"{settings.COMMONPLACE_URL}{path}"


def reset(caller: Caller, *, person: User) -> tuple[str, bool]:
    """Return a new password link for a user, and whether it was sent by e-mail."""
    _require_admin(caller)
    person = User.objects.get(pk=person.pk)  # it may have changed since the page was opened
    if not person.is_active:
        raise Conflict(gettext("is deactivated"), field="person")
    if not settings.LOCAL_PASSWORDS:
        raise Conflict(gettext("cannot have a password: LOCAL_PASSWORDS is off"), field="person")
    link = start_link(person)
    with mail.in_language_of(person):
        subject = gettext("Set a new password")
        context = {"link": link, "by": caller.email}
        return link, mail.send([person.email], subject, "mail/reset.txt", context)


def offboard(caller: Caller, *, person: User, to: str) -> HandOver:
    """Hand everything of a user over to a colleague, revoke the user's tokens and deactivate the account.

    `undo_offboarding` reverses the hand-over. An account that is inactive already stays so, also after the undo. Raises
    Conflict if such an account owns nothing that can be moved.
    """
    _require_admin(caller)
    new_owner = User.objects.filter(email=to.strip().lower(), is_active=True).first()
    if new_owner is None:
        raise NotFound(gettext("there is no active person with this e-mail address"), field="to")
    if person.email == caller.email:
        raise Conflict(gettext("is your own account: ask another admin"), field="person")
    with transaction.atomic():
        person = User.objects.select_for_update().get(pk=person.pk)  # the form may have been sent twice
        handed_over = hand_overs.hand_over(caller, old=person.email, new=new_owner.email)
        if person.is_active:
            deactivate(caller, person=person)
            person.refresh_from_db()
            handed_over.moved[DEACTIVATED] = [person.session_generation]
            handed_over.save(update_fields=["moved"])
        elif not handed_over.counts:
            raise Conflict(gettext("is disabled already, and has nothing to hand over"), field="person")
    return handed_over


def undo_offboarding(caller: Caller, *, person: User, hand_over_id: UUID | str) -> dict[str, int]:
    """Take back what a hand-over moved, and reactivate the account if the hand-over has deactivated it.

    The user's revoked tokens stay revoked, and an account that was deactivated again since then stays inactive. Return
    the numbers of rows taken back, by kind, and as `kept` the number of those that could not be.
    """
    _require_admin(caller)
    hand_over = next(
        (row for row in hand_overs.open_hand_overs(person.email) if str(row.pk) == str(hand_over_id)), None
    )
    if hand_over is None:
        raise Conflict(gettext("has no such hand-over to take back"), field="person")
    with transaction.atomic():
        # First, because a disabled account may read nothing. A later deactivation has increased the number.
        generations = hand_over.moved.get(DEACTIVATED, [])
        User.objects.filter(pk=person.pk, session_generation__in=generations).update(is_active=True)
        person.refresh_from_db()
        counts = hand_overs.undo_hand_over(caller, hand_over_id=hand_over_id)
    return counts


def deactivate(caller: Caller, *, person: User) -> None:
    """Block sign-in and revoke all tokens of a user. The user's memories stay."""
    _require_admin(caller)
    if person.email == caller.email:
        raise Conflict(gettext("is your own account: ask another admin"), field="person")
    with transaction.atomic():
        end_access(caller, person=person)
        # the groups of the company must not reactivate an account that an admin has deactivated
        CompanyIdentity.objects.filter(person=person).update(ended_at=None)


def end_access(caller: Caller, *, person: User) -> None:
    """Deactivate an account, end its sessions, revoke its tokens and delete its exports. Raises as `revoke_all`."""
    revoke_all(caller, user=person)
    exports.delete_of_person(person.email)
    User.objects.filter(pk=person.pk).update(is_active=False, session_generation=F("session_generation") + 1)


def activate(caller: Caller, *, person: User) -> None:
    _require_admin(caller)
    User.objects.filter(pk=person.pk).update(is_active=True)


def end_sessions(caller: Caller, *, person: User) -> None:
    """Sign a user out in every browser. Raises Forbidden unless the caller is this user or an admin."""
    if not caller.can_edit_for(person.email):
        raise Forbidden(gettext("only admins can end the sessions of other people"))
    User.objects.filter(pk=person.pk).update(session_generation=F("session_generation") + 1)
    person.refresh_from_db()


def unlink_company_identity(caller: Caller, *, person: User) -> None:
    """Let a user's next sign-in at the company link the account again, by its verified e-mail address."""
    _require_admin(caller)
    CompanyIdentity.objects.filter(person=person).delete()


def reset_second_factor(caller: Caller, *, person: User) -> bool:
    """Remove a user's authenticator app, passkeys and recovery codes, and sign them out everywhere.

    Returns whether the user was told by e-mail.
    """
    _require_admin(caller)
    with transaction.atomic():
        deleted, _ = Authenticator.objects.filter(user=person).delete()
        if not deleted:
            raise Conflict(gettext("has no second factor"), field="person")
        end_sessions(caller, person=person)
    context = {"by": caller.email, "site": settings.COMMONPLACE_URL}
    with mail.in_language_of(person):
        subject = gettext("Your second factor was removed")
        return mail.send([person.email], subject, "mail/second_factor_reset.txt", context)


def set_time_zone(caller: Caller, *, name: str) -> None:
    """Set the time zone of the caller's pages; an empty name means the browser's time zone."""
    if name and name not in available_timezones():
        raise Invalid(
            gettext("%(name)r is unknown") % {"name": name[:64]},
            field="time_zone",
            allowed=gettext("names like Europe/Zurich, or empty"),
        )
    User.objects.filter(email=caller.email).update(time_zone=name)


def set_language(caller: Caller, *, code: str) -> None:
    """Set the language of the caller's pages; an empty code means the browser's language."""
    codes = [code for code, _ in settings.LANGUAGES]
    if code and code not in codes:
        raise Invalid(
            gettext("%(code)r is unknown") % {"code": code[:64]},
            field="language",
            allowed=gettext("%(names)s, or empty") % {"names": ", ".join(codes)},
        )
    User.objects.filter(email=caller.email).update(language=code)


def attempted_address(request: HttpRequest, credentials: Mapping[str, Any] | None = None) -> str:
    """Return the normalized e-mail address of a sign-in attempt, by which django-axes counts failures."""
    address = (credentials or {}).get("username") or request.POST.get("username") or ""
    return str(address).strip().lower()[:254]


def attempt_origin(request: HttpRequest) -> str:
    """Return the address by which django-axes counts failures; of an IPv6 address, its /64 network."""
    return sender_of(request.META.get("REMOTE_ADDR", "")).partition("/")[0]


def _require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can manage people"))
