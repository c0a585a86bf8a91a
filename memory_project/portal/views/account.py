"""Sign-in, password reset, and the account page."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy

from memories.contract.errors import DomainError
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memory_project.accounts import connected_apps, people, tokens
from memory_project.models import AuditEvent, User
from memory_project.notifications import inbox, mail
from memory_project.portal.error_labels import message_with_label

SIGN_INS_SHOWN = 8


class SignIn(auth.LoginView):
    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "has_mail": bool(settings.EMAIL_HOST)}


class ForgotPassword(auth.PasswordResetView):
    """Send a password link. If e-mail is not configured, the page says that an admin can create a link."""

    template_name = "registration/forgot.html"
    email_template_name = "mail/reset_self.txt"
    subject_template_name = "mail/reset_subject.txt"
    success_url = reverse_lazy("password_reset_done")
    extra_email_context = {"site": settings.COMMONPLACE_URL}  # not the request's Host header, which anyone can set

    def form_valid(self, form: Any) -> HttpResponse:
        return super().form_valid(form) if settings.EMAIL_HOST else self.render_to_response(self.get_context_data())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "has_mail": bool(settings.EMAIL_HOST)}


class LinkSent(auth.PasswordResetDoneView):
    template_name = "registration/link_sent.html"


class SetPassword(auth.PasswordResetConfirmView):
    """Set a password through the link of an invitation or a reset, and sign the user in."""

    template_name = "registration/set_password.html"
    extra_context = {"has_mail": bool(settings.EMAIL_HOST)}
    post_reset_login = True
    post_reset_login_backend = "django.contrib.auth.backends.ModelBackend"
    success_url = reverse_lazy("my-knowledge")


@login_required
def account(request: HttpRequest) -> HttpResponse:
    """Show the account. A POST changes the password or the preferences, or signs out all other browsers."""
    assert isinstance(request.user, User)  # guaranteed by login_required
    caller = caller_from_request(request, channel="portal")
    if request.method == "POST" and request.POST.get("act") == "end":
        return _end_access(request, caller, request.user)
    if request.method == "POST" and request.POST.get("act") == "notify":
        return _save_preferences(request, caller)
    form = PasswordChangeForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, form.user)
        ended = tokens.revoke_all(caller=caller, user=request.user) if "revoke_tokens" in request.POST else 0
        also = f" {ended} API tokens are revoked." if ended else ""
        messages.success(request, f"Your password was changed. All other browsers are signed out.{also}")
        return redirect("account")
    sign_ins = AuditEvent.objects.filter(email=caller.email, tool="sign-in").order_by("-at")[:SIGN_INS_SHOWN]
    in_use = request.user.api_tokens.filter(revoked_at=None).count() + connected_apps.listed(request.user).count()
    context = {
        "form": form,
        "sign_ins": sign_ins,
        "tokens_in_use": in_use,
        "kinds": [(kind, entry.title, request.user.notify.get(kind, "portal")) for kind, entry in inbox.KINDS.items()],
        "ways": inbox.CHOICES,
        "has_digest": settings.DIGEST and mail.is_configured(),
        "wants_digest": request.user.notify.get(inbox.DIGEST) != "none",
        "has_mail": mail.is_configured(),
        "zones": sorted(available_timezones()),
    }
    return render(request, "registration/account.html", context)


def _save_preferences(request: HttpRequest, caller: Caller) -> HttpResponse:
    kinds = (*inbox.KINDS, inbox.DIGEST)
    ways = {kind: request.POST[f"way-{kind}"] for kind in kinds if f"way-{kind}" in request.POST}
    try:
        with transaction.atomic():
            inbox.choose(caller=caller, ways=ways)
            people.set_time_zone(caller=caller, name=request.POST.get("time_zone", ""))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, "Saved.")
    return redirect("account")


def _end_access(request: HttpRequest, caller: Caller, user: User) -> HttpResponse:
    people.end_sessions(caller=caller, person=user)
    update_session_auth_hash(request, user)
    ended = tokens.revoke_all(caller=caller, user=user) if "revoke_tokens" in request.POST else 0
    also = f", and {ended} API tokens are revoked" if ended else ""
    messages.success(request, f"All other browsers are signed out{also}.")
    return redirect("account")
