"""Sign-in, password reset, and the account page."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from allauth.account.internal.flows.login import perform_password_login
from allauth.account.models import Login
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import forms as auth_forms
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.utils import translation
from django.utils.translation import gettext, ngettext

from foundation.database import identity
from foundation.operations.errors import DomainError, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.insights.queries import may_curate
from memory_project.accounts import company_sign_in, connected_apps, mail, people, tokens
from memory_project.models import AuditEvent, User
from memory_project.notifications import inbox, kinds
from memory_project.web.error_labels import message_with_label

SIGN_INS_SHOWN = 8


class SignIn(auth.LoginView):
    """Sign in with a password. allauth then asks for the second factor, if the person has one."""

    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        require_passwords()
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        return sign_in_with_password(self.request, form.get_user(), self.get_success_url())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        return {**context, "has_mail": bool(settings.EMAIL_HOST), **ways_to_sign_in()}


def ways_to_sign_in() -> dict[str, Any]:
    company = settings.SSO_NAME if settings.SSO_ISSUER else ""
    return {"company": company, "has_passwords": settings.LOCAL_PASSWORDS}


def require_passwords() -> None:
    if not settings.LOCAL_PASSWORDS:
        raise Forbidden(
            gettext("passwords are switched off here; continue with %(sso_name)s") % {"sso_name": settings.SSO_NAME}
        )


@identity.service("sign_in")
def sign_in_with_password(request: HttpRequest, user: Any, next_url: str) -> HttpResponse:
    """Sign in a user who has just proven the password, or ask for the second factor."""
    response: HttpResponse = perform_password_login(request, {}, Login(user=user, redirect_url=next_url))
    return response


class PasswordResetForm(auth_forms.PasswordResetForm):
    """Writes the mail in the language of the account, which may differ from that of the browser."""

    def send_mail(
        self, subject_template_name: str, email_template_name: str, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        with mail.in_language_of(context["user"]):
            super().send_mail(subject_template_name, email_template_name, context, *args, **kwargs)


class ForgotPassword(auth.PasswordResetView):
    """Send a password link. If e-mail is not configured, the page says that an admin can create a link."""

    template_name = "registration/forgot.html"
    form_class = PasswordResetForm
    email_template_name = "mail/reset_self.txt"
    subject_template_name = "mail/reset_subject.txt"
    success_url = reverse_lazy("password_reset_done")
    extra_email_context = {"site": settings.COMMONPLACE_URL}  # not the request's Host header, which anyone can set

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        require_passwords()
        response: HttpResponse = super().dispatch(request, *args, **kwargs)  # type: ignore[assignment]
        return response

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
    success_url = reverse_lazy("my-knowledge")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        require_passwords()
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: Any) -> HttpResponse:
        super().form_valid(form)  # the link alone does not replace the second factor
        return sign_in_with_password(self.request, self.user, str(self.success_url))


class SignOut(auth.LogoutView):
    """Sign out here, and at the company's issuer if the session began there."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        url = company_sign_in.end_session_url(request)
        response: HttpResponse = super().post(request, *args, **kwargs)
        # The policy form-action keeps a form from leading to another host, so the page leads there.
        return render(request, "registration/signed_out.html", {"url": url, **ways_to_sign_in()}) if url else response


@login_required
def account(request: HttpRequest) -> HttpResponse:
    """Show the account. A POST changes the password, the language or the notifications, or ends other sign-ins."""
    assert isinstance(request.user, User)  # guaranteed by login_required
    caller = caller_from_request(request, channel="portal")
    if request.method == "POST" and request.POST.get("act") == "end":
        return _end_access(request, caller, request.user)
    if request.method == "POST" and request.POST.get("act") == "notify":
        return _save_notifications(request, caller)
    if request.method == "POST" and request.POST.get("act") == "locale":
        return _save_locale(request, caller)
    if request.method == "POST":
        require_passwords()
    form = PasswordChangeForm(request.user, request.POST or None)
    del form.fields["old_password"].widget.attrs["autofocus"]  # the page is opened for many other reasons
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, form.user)
        ended = tokens.revoke_all(caller, user=request.user) if "revoke_tokens" in request.POST else 0
        messages.success(request, gettext("Your password was changed. All other browsers are signed out."))
        _report_revoked(request, ended)
        return redirect("account")
    sign_ins = AuditEvent.objects.filter(email=caller.email, tool="sign-in").order_by("-at")[:SIGN_INS_SHOWN]
    in_use = request.user.api_tokens.filter(revoked_at=None).count() + connected_apps.listed(request.user).count()
    context = {
        "form": form,
        "sign_ins": sign_ins,
        "tokens_in_use": in_use,
        "topics": _topics(caller, request.user),
        "ways": kinds.CHOICES,
        "has_digest": settings.DIGEST and mail.is_configured(),
        "wants_digest": request.user.notify.get(kinds.DIGEST) != "none",
        "has_mail": mail.is_configured(),
        "zones": sorted(available_timezones()),
        "languages": settings.LANGUAGES,
        "has_second_factor": is_mfa_enabled(request.user),
        **ways_to_sign_in(),
    }
    return render(request, "registration/account.html", context)


def _topics(caller: Caller, person: User) -> list[tuple[str, kinds.Topic, str]]:
    """Return the topics of which the caller can be notified, each with its name and the way chosen."""
    chosen = inbox.ways_by_topic(person)
    hidden = set() if may_curate(caller) else {"review"}
    return [(name, topic, chosen[name]) for name, topic in kinds.TOPICS.items() if name not in hidden]


def _save_notifications(request: HttpRequest, caller: Caller) -> HttpResponse:
    topics = {name: request.POST[f"way-{name}"] for name in kinds.TOPICS if f"way-{name}" in request.POST}
    try:
        with transaction.atomic():
            inbox.choose_topics(caller, ways=topics)
            if "way-digest" in request.POST:
                inbox.choose(caller, ways={kinds.DIGEST: request.POST["way-digest"]})
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Saved."))
    return redirect("account")


def _save_locale(request: HttpRequest, caller: Caller) -> HttpResponse:
    try:
        with transaction.atomic():
            people.set_time_zone(caller, name=request.POST.get("time_zone", ""))
            people.set_language(caller, code=request.POST.get("language", ""))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        with translation.override(request.POST.get("language") or translation.get_language()):
            messages.success(request, gettext("Saved."))
    return redirect("account")


def _end_access(request: HttpRequest, caller: Caller, user: User) -> HttpResponse:
    people.end_sessions(caller, person=user)
    update_session_auth_hash(request, user)
    ended = tokens.revoke_all(caller, user=user) if "revoke_tokens" in request.POST else 0
    messages.success(request, gettext("All other browsers are signed out."))
    _report_revoked(request, ended)
    return redirect("account")


def _report_revoked(request: HttpRequest, count: int) -> None:
    if count:
        text = ngettext("%(count)s API token was revoked.", "%(count)s API tokens were revoked.", count)
        messages.success(request, text % {"count": count})
