"""Sign-in at the company, and with an operator's link."""

from __future__ import annotations

from allauth.account.internal.flows.login import perform_login
from allauth.account.models import Login
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_safe

from foundation.database import identity
from memory_project.accounts import company_sign_in, sign_in_links


@require_safe
def company_sign_in_start(request: HttpRequest) -> HttpResponse:
    _require_issuer()
    page = request.GET.get("next", "")
    is_own = url_has_allowed_host_and_scheme(page, {request.get_host()}, require_https=request.is_secure())
    return company_sign_in.start(request, page if is_own else reverse(settings.LOGIN_REDIRECT_URL))


@require_safe
@identity.service("sign_in")
def company_callback(request: HttpRequest) -> HttpResponse:
    _require_issuer()
    response: HttpResponse = OAuth2CallbackView.adapter_view(company_sign_in.Issuer)(request)
    return response


def _require_issuer() -> None:
    if not settings.SSO_ISSUER:
        raise Http404


@require_http_methods(["GET", "HEAD", "POST"])
@identity.service("sign_in")
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """Sign in with a link of `manage.py signinlink`. It takes a click, because mail scanners open links."""
    person = sign_in_links.find_person(token)
    if request.method != "POST" or person is None:
        return render(request, "registration/sign_in_link.html", {"person": person}, status=200 if person else 410)
    response: HttpResponse = perform_login(request, Login(user=person, redirect_url=reverse("my-knowledge")))
    return response
