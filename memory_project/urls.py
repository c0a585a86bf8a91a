from __future__ import annotations

from django.contrib import admin
from django.contrib.auth import views as auth
from django.urls import include, path

from memories import api
from memory_project import views

urlpatterns = [
    path("", include("knowledge.urls")),
    path("connect/", views.connect, name="connect"),
    path("connect/tokens/", views.make_token, name="make-token"),
    path("connect/tokens/<int:token_id>/revoke/", views.revoke, name="revoke-token"),
    path("connect/first-call/", views.first_call, name="first-call"),
    path("sign-in/", views.SignIn.as_view(), name="sign-in"),
    path("sign-out/", auth.LogoutView.as_view(), name="sign-out"),
    path("healthz", views.health, name="health"),
    path("api/v1/memories/", api.Memories.as_view(), name="api-memories"),
    path("api/v1/memories/recall/", api.RecallMemories.as_view(), name="api-recall"),
    path("api/v1/memories/<uuid:record_id>/", api.OneMemory.as_view(), name="api-memory"),
    path("api/v1/memories/<uuid:record_id>/supersede/", api.SupersedeMemory.as_view(), name="api-supersede"),
    path("admin/", admin.site.urls),
]
