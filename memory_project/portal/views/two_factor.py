"""The pages of allauth that Commonplace uses, by name. Its pages for sign-up, e-mail and passwords are left out."""

from __future__ import annotations

from typing import Any

from allauth.account.views import reauthenticate
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import path

from foundation.database import identity
from memory_project.accounts.second_factor import is_missing


def to_sign_in(request: HttpRequest) -> HttpResponse:
    """Lead to the sign-in page. allauth's pages link to it under their own names, also to cancel a sign-in."""
    if request.method == "POST" and not request.user.is_authenticated:
        request.session.flush()
    return redirect("sign-in")


class SecondFactors(mfa.IndexView):  # type: ignore[misc]  # allauth has no types
    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "second_factor_is_missing": is_missing(self.request)}


urlpatterns = [
    path("sign-in/again/", to_sign_in, name="account_login"),
    path("sign-in/cancel/", to_sign_in, name="account_logout"),
    # whoever signs in is not known yet, so their second factors are read as a service
    path("sign-in/second-factor/", identity.service("sign_in")(mfa.authenticate), name="mfa_authenticate"),
    path("account/confirm/", reauthenticate, name="account_reauthenticate"),
    path("account/confirm/code/", mfa.reauthenticate, name="mfa_reauthenticate"),
    path("account/confirm/passkey/", webauthn.reauthenticate_webauthn, name="mfa_reauthenticate_webauthn"),
    path("account/second-factor/", SecondFactors.as_view(), name="mfa_index"),
    path("account/second-factor/app/", totp.activate_totp, name="mfa_activate_totp"),
    path("account/second-factor/app/remove/", totp.deactivate_totp, name="mfa_deactivate_totp"),
    path("account/second-factor/codes/", recovery_codes.view_recovery_codes, name="mfa_view_recovery_codes"),
    path(
        "account/second-factor/codes/new/", recovery_codes.generate_recovery_codes, name="mfa_generate_recovery_codes"
    ),
    path(
        "account/second-factor/codes/file/", recovery_codes.download_recovery_codes, name="mfa_download_recovery_codes"
    ),
    path("account/second-factor/passkeys/", webauthn.list_webauthn, name="mfa_list_webauthn"),
    path("account/second-factor/passkeys/new/", webauthn.add_webauthn, name="mfa_add_webauthn"),
    path("account/second-factor/passkeys/<int:pk>/", webauthn.edit_webauthn, name="mfa_edit_webauthn"),
    path("account/second-factor/passkeys/<int:pk>/remove/", webauthn.remove_webauthn, name="mfa_remove_webauthn"),
]
