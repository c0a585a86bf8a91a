"""Pages on which admins manage people: invitations, password links, personas, rights, and offboarding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, Q
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError, Invalid, NotFound
from foundation.operations.fields import UNSTORABLE
from foundation.operations.operation import validate
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import caller_from_request
from memories import queries
from memories.models import MemoryRecord
from memories.writing import hand_overs
from memory_project.accounts import connected_apps, people, tokens
from memory_project.models import CompanyIdentity, User
from memory_project.web.error_labels import message_with_label


@require_safe
def people_list(request: HttpRequest) -> HttpResponse:
    admin_of(request)
    return _people(request)


def _people(request: HttpRequest, *, entered: Mapping[str, Any] | None = None, fault: str = "") -> HttpResponse:
    """Render the list and the invitation form. `entered` are the values of an invitation that was refused."""
    q = UNSTORABLE.sub("", request.GET.get("q", "")).strip()[:100]
    memberships = PersonaMembership.objects.select_related("persona").order_by("-is_default", "persona__name")
    rows = User.objects.prefetch_related(Prefetch("memberships", queryset=memberships), "groups")
    if q:
        rows = rows.filter(Q(email__icontains=q) | Q(name__icontains=q))
    current_page = page(rows, request.GET.get("after", ""), by="date_joined", size=50)
    context = {
        "page": current_page,
        "q": q,
        "personas": Persona.objects.order_by("name"),
        "has_mail": bool(settings.EMAIL_HOST),
        "entered": entered or {},
        "fault": fault,
    }
    return render(request, "operate/people.html", context, status=400 if fault else 200)


@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    caller = admin_of(request)
    entered: dict[str, Any] = {
        "email": request.POST.get("email", ""),
        "name": request.POST.get("name", ""),
        "personas": request.POST.getlist("personas"),
        "rights": request.POST.getlist("rights"),
    }
    try:
        user, link, is_sent = people.invite(caller, **entered)
    except DomainError as error:
        return _people(request, entered=entered, fault=message_with_label(error))
    invited = gettext("Invited %(person)s. The link was sent.") if is_sent else gettext("Invited %(person)s.")
    messages.success(request, invited % {"person": user.email})
    return _person(request, caller, user, "" if is_sent else link)


@require_safe
def person_detail(request: HttpRequest, person_id: int) -> HttpResponse:
    caller = admin_of(request)
    return _person(request, caller, _find(person_id))


def _person(request: HttpRequest, caller: Caller, person: User, link: str = "") -> HttpResponse:
    """Render a person's page. `link` is a one-time password link, shown in this response only."""
    persona_names = list(PersonaMembership.objects.filter(user=person).values_list("persona__name", flat=True))
    context = {
        "person": person,
        "link": link,
        "personas": [(persona, persona.name in persona_names) for persona in Persona.objects.order_by("name")],
        "rights": people.rights_of(person),
        "owned": queries.capped_count(MemoryRecord.objects.visible_to(caller).filter(created_by=person.email)),
        "tokens": person.api_tokens.filter(revoked_at=None)[:50],
        "apps": connected_apps.listed(person)[:50],
        "colleagues": User.objects.filter(is_active=True).exclude(pk=person.pk)[:500],
        "hand_overs": [
            (row, hand_overs.describe(row.counts), hand_overs.describe(row.stays))
            for row in hand_overs.open_hand_overs(person.email)
        ],
        "company_identity": CompanyIdentity.objects.filter(person=person).first(),
        "has_second_factor": is_mfa_enabled(person),
        "is_self": person.email == caller.email,
    }
    return render(request, "operate/person.html", context)


@require_POST
def change_person(request: HttpRequest, person_id: int, act: str) -> HttpResponse:
    caller = admin_of(request)
    person = _find(person_id)
    try:
        if act == "reset":
            link, is_sent = people.reset(caller, person=person)
            text = gettext("The link was sent.") if is_sent else gettext("Pass this link on. It works once.")
            messages.success(request, text)
            return _person(request, caller, person, "" if is_sent else link)
        if act not in ACTS:
            raise NotFound(gettext("%(act)r is not a known action") % {"act": act})
        messages.success(request, ACTS[act](caller, person, request.POST))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    return redirect("admin:person", person_id=person_id)


# -- actions on the page of a person: each returns the message of its success ------------------------------------


def _change(caller: Caller, person: User, form: QueryDict) -> str:
    people.change(caller, person=person, personas=form.getlist("personas"), rights=form.getlist("rights"))
    return gettext("Saved.")


def _hand_over(caller: Caller, person: User, form: QueryDict) -> str:
    if form.get("confirm") != "yes":
        raise Invalid(gettext("is missing: tick the box to hand everything over"), field="confirm")
    moved = people.offboard(caller, person=person, to=form.get("to", ""))
    counts = hand_overs.describe(moved.counts) or gettext("nothing")
    return gettext("Handed over: %(counts)s. The account is disabled.") % {"counts": counts}


def _take_back(caller: Caller, person: User, form: QueryDict) -> str:
    counts = people.undo_offboarding(caller, person=person, hand_over_id=form.get("hand_over", ""))
    kept = counts.pop("kept")
    lines = [gettext("Taken back: %(counts)s.") % {"counts": hand_overs.describe(counts) or gettext("nothing")}]
    if kept:
        lines.append(
            ngettext(
                "%(n)s item no longer exists or belongs to someone else by now.",
                "%(n)s items no longer exist or belong to someone else by now.",
                kept,
            )
            % {"n": kept}
        )
    lines.append(
        gettext("The account is enabled again.") if person.is_active else gettext("The account stays disabled.")
    )
    return " ".join(lines)


def _end_access(caller: Caller, person: User, form: QueryDict) -> str:
    people.end_sessions(caller, person=person)
    ended = tokens.revoke_all(caller, user=person)
    return ngettext(
        "Signed out everywhere. %(n)s token is revoked.", "Signed out everywhere. %(n)s tokens are revoked.", ended
    ) % {"n": ended}


def _end_app(caller: Caller, person: User, form: QueryDict) -> str:
    app = connected_apps.end(caller, app_id=validate(UUID, form.get("app", ""), "app"))
    return gettext("Access ended: “%(app)s”.") % {"app": app.name or app.address}


def _unlink(caller: Caller, person: User, form: QueryDict) -> str:
    people.unlink_company_identity(caller, person=person)
    return gettext("The link is removed. The next sign-in links the account again.")


def _reset_second_factor(caller: Caller, person: User, form: QueryDict) -> str:
    is_sent = people.reset_second_factor(caller, person=person)
    if is_sent:
        text = gettext("The second factor is removed. %(person)s is signed out and was told by e-mail.")
    else:
        text = gettext("The second factor is removed. %(person)s is signed out.")
    return text % {"person": person}


def _switch_off(caller: Caller, person: User, form: QueryDict) -> str:
    people.deactivate(caller, person=person)
    return gettext("Account disabled. The person can’t sign in, and all tokens are revoked. Their memories stay.")


def _switch_on(caller: Caller, person: User, form: QueryDict) -> str:
    people.activate(caller, person=person)
    return gettext("Account enabled again. New tokens have to be created.")


ACTS: Mapping[str, Callable[[Caller, User, QueryDict], str]] = {
    "change": _change,
    "hand-over": _hand_over,
    "take-back": _take_back,
    "end-access": _end_access,
    "end-app": _end_app,
    "unlink": _unlink,
    "reset-second-factor": _reset_second_factor,
    "switch-off": _switch_off,
    "switch-on": _switch_on,
}


def _find(person_id: int) -> User:
    person = User.objects.filter(pk=person_id).first()
    if person is None:
        raise NotFound(gettext("no such person"))
    return person


def admin_of(request: HttpRequest) -> Caller:
    caller = caller_from_request(request, channel="admin")
    if not caller.is_admin:
        raise PermissionDenied
    return caller


def operator_of(request: HttpRequest) -> Caller:
    caller = caller_from_request(request, channel="admin")
    if not caller.is_operator:
        raise PermissionDenied
    return caller
