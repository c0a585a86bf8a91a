"""Pages on which admins manage people: invitations, password links, personas, rights, and offboarding."""

from __future__ import annotations

from uuid import UUID

from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Prefetch, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from memories import queries
from memories.contract.errors import DomainError, NotFound
from memories.contract.fields import UNSTORABLE
from memories.contract.operations import validate
from memories.contract.paging import page
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.models import MemoryRecord, Persona, PersonaMembership
from memories.writing import ownership
from memory_project.accounts import connected_apps, people, tokens
from memory_project.models import CompanyIdentity, User
from memory_project.portal.error_labels import message_with_label


@require_safe
def people_list(request: HttpRequest) -> HttpResponse:
    admin_of(request)
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
    }
    return render(request, "operate/people.html", context)


@require_POST
def invite(request: HttpRequest) -> HttpResponse:
    caller = admin_of(request)
    try:
        user, link, is_sent = people.invite(
            caller=caller,
            email=request.POST.get("email", ""),
            name=request.POST.get("name", ""),
            personas=request.POST.getlist("personas"),
            rights=request.POST.getlist("rights"),
        )
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect("admin:people")
    messages.success(request, f"Invited {user.email}." + (" The link was sent." if is_sent else ""))
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
            (row, ownership.describe(row.counts), ownership.describe(row.stays))
            for row in ownership.open_hand_overs(person.email)
        ],
        "company_identity": CompanyIdentity.objects.filter(person=person).first(),
        "has_second_factor": is_mfa_enabled(person),
        "is_self": person.email == caller.email,
    }
    return render(request, "operate/person.html", context)


@require_POST
def change_person(request: HttpRequest, person_id: int, act: str) -> HttpResponse:
    caller, person = admin_of(request), _find(person_id)
    try:
        match act:
            case "reset":
                link, is_sent = people.reset(caller=caller, person=person)
                messages.success(request, "The link was sent." if is_sent else "Pass this link on; it works once.")
                return _person(request, caller, person, "" if is_sent else link)
            case "change":
                personas = request.POST.getlist("personas")
                people.change(caller=caller, person=person, personas=personas, rights=request.POST.getlist("rights"))
                messages.success(request, "Saved.")
            case "hand-over":
                moved = people.offboard(caller=caller, person=person, to=request.POST.get("to", ""))
                messages.success(
                    request,
                    f"Handed over: {ownership.describe(moved.counts) or 'nothing'}. The account is disabled.",
                )
            case "take-back":
                counts = people.undo_offboarding(
                    caller=caller, person=person, hand_over_id=request.POST.get("hand_over", "")
                )
                kept = counts.pop("kept")
                note = f" {kept} are gone or belong to someone else by now." if kept else ""
                messages.success(
                    request,
                    f"Taken back: {ownership.describe(counts) or 'nothing'}.{note} The account is enabled again.",
                )
            case "end-access":
                people.end_sessions(caller=caller, person=person)
                ended = tokens.revoke_all(caller=caller, user=person)
                messages.success(request, f"Signed out everywhere. {ended} tokens are revoked.")
            case "end-app":
                app = connected_apps.end(caller=caller, app_id=validate(UUID, request.POST.get("app", ""), "app"))
                messages.success(request, f"Ended: “{app.name or app.address}”.")
            case "unlink":
                people.unlink_company_identity(caller=caller, person=person)
                messages.success(request, "The link is removed. The next sign-in links the account again.")
            case "reset-second-factor":
                is_sent = people.reset_second_factor(caller=caller, person=person)
                told = " and told by e-mail" if is_sent else ""
                messages.success(request, f"The second factor is removed. {person} is signed out{told}.")
            case "switch-off":
                people.deactivate(caller=caller, person=person)
                messages.success(
                    request,
                    "Account disabled. The person can’t sign in, and all tokens are revoked. Their memories stay.",
                )
            case "switch-on":
                people.activate(caller=caller, person=person)
                messages.success(request, "Account enabled again. New tokens have to be created.")
            case _:
                raise NotFound(f"{act!r} is not a known action")
    except DomainError as error:
        messages.error(request, message_with_label(error))
    return redirect("admin:person", person_id=person_id)


def _find(person_id: int) -> User:
    person = User.objects.filter(pk=person_id).first()
    if person is None:
        raise NotFound("no such person")
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
