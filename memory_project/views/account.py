"""Signing in, one's own account, and a new password for who forgot it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth import views as auth
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse_lazy

from memory_project.models import User


class SignIn(auth.LoginView):
    template_name = "registration/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "has_mail": bool(settings.EMAIL_HOST)}


class ForgotPassword(auth.PasswordResetView):
    """Sends a link; without e-mail set up, says who can make one."""

    template_name = "registration/forgot.html"
    email_template_name = "mail/reset_self.txt"
    subject_template_name = "mail/reset_subject.txt"
    success_url = reverse_lazy("password_reset_done")

    def form_valid(self, form: Any) -> HttpResponse:
        return super().form_valid(form) if settings.EMAIL_HOST else self.render_to_response(self.get_context_data())

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "has_mail": bool(settings.EMAIL_HOST)}


class LinkSent(auth.PasswordResetDoneView):
    template_name = "registration/link_sent.html"


class SetPassword(auth.PasswordResetConfirmView):
    """The link of an invitation or a reset: sets the password and signs in."""

    template_name = "registration/set_password.html"
    extra_context = {"has_mail": bool(settings.EMAIL_HOST)}
    post_reset_login = True
    post_reset_login_backend = "django.contrib.auth.backends.ModelBackend"
    success_url = reverse_lazy("my-knowledge")


@login_required
def account(request: HttpRequest) -> HttpResponse:
    assert isinstance(request.user, User)  # login_required has seen to it
    form = PasswordChangeForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, form.user)
        messages.success(request, "The new password holds from now on; other browsers are signed out.")
        return redirect("account")
    return render(request, "registration/account.html", {"form": form})
