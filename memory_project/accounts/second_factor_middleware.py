from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import resolve, reverse

from memory_project.accounts.second_factor import is_missing
from memory_project.web.bearer import bearer
from memory_project.web.middleware import error_response
from memory_project.web.refusals import is_for_programs

# Pages that stay open to people who must set up a second factor first
OPEN_PAGES = {
    "mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_view_recovery_codes",
    "mfa_download_recovery_codes", "mfa_generate_recovery_codes", "account_reauthenticate", "mfa_reauthenticate",
    "sign-in", "sign-out", "health",
}  # fmt: skip


def second_factor(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Lead people to the page for setting up a second factor, if they must have one. Tokens don't need one."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if not is_missing(request) or request.path.startswith("/static/"):
            return get_response(request)
        if is_for_programs(request.path):
            if bearer(request.headers.get("Authorization", "")):  # then the session does not count
                return get_response(request)
            return error_response(request, "set up a second factor on the account page first", "forbidden", 403)
        if resolve(request.path_info).url_name in OPEN_PAGES:
            return get_response(request)
        return HttpResponseRedirect(reverse("mfa_index"))

    return middleware
