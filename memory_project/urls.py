from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from memory_project.portal.views import errors
from memory_project.web import health

urlpatterns = [
    path("", include("memory_project.portal.urls")),
    path("", include("memory_project.accounts.oauth.urls")),
    path("api/v1/", include("memory_project.rest.urls")),
    path("admin/", admin.site.urls),
    path("healthz", health.health, name="health"),
    path("favicon.ico", RedirectView.as_view(url=f"{settings.STATIC_URL}img/icon.svg"), name="favicon"),
]

handler400 = errors.bad_request
handler403 = errors.forbidden
handler404 = errors.not_found
handler500 = errors.failed
