from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path
from django.views.generic import RedirectView

from memories import api
from memory_project.views import account, activity, connect, faults, health

urlpatterns = [
    path("", include("knowledge.urls")),
    path("activity/", activity.activity, name="activity"),
    path("account/", account.account, name="account"),
    path("password/forgot/", account.ForgotPassword.as_view(), name="forgot-password"),
    path("password/sent/", account.LinkSent.as_view(), name="password_reset_done"),
    path("password/<uidb64>/<token>/", account.SetPassword.as_view(), name="password_reset_confirm"),
    path("connect/", connect.connect, name="connect"),
    path("connect/tokens/", connect.make_token, name="make-token"),
    path("connect/tokens/<int:token_id>/revoke/", connect.revoke, name="revoke-token"),
    path("connect/first-call/", connect.first_call, name="first-call"),
    path("sign-in/", account.SignIn.as_view(), name="sign-in"),
    path("sign-out/", auth.LogoutView.as_view(), name="sign-out"),
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}img/icon.svg"), name="favicon"),
    path("healthz", health.health, name="health"),
    path("api/v1/memories/", api.Memories.as_view(), name="api-memories"),
    path("api/v1/memories/recall/", api.RecallMemories.as_view(), name="api-recall"),
    path("api/v1/memories/<id:record_id>/", api.OneMemory.as_view(), name="api-memory"),
    path("api/v1/memories/<id:record_id>/supersede/", api.SupersedeMemory.as_view(), name="api-supersede"),
    path("admin/", admin.site.urls),
]

handler400 = faults.bad_request
handler403 = faults.forbidden
handler404 = faults.not_found
handler500 = faults.failed
