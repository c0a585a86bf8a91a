from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from memories.contract import url_converters  # noqa: F401 - registers the converter <id:…>
from memory_project.rest import (
    administration,
    analyses,
    catalog,
    changesets,
    conversations,
    debt,
    exports,
    graph,
    hooks,
    imports,
    insights,
    memories,
    own,
    people,
    start,
    subscriptions,
    suggestions,
    upstreams,
    viewers,
    webhooks,
)

urlpatterns = [
    *start.urlpatterns,
    path("schema/", SpectacularJSONAPIView.as_view(), name="api-schema"),
    path("docs/", viewers.swagger, name="api-docs"),
    path("redoc/", viewers.redoc, name="api-redoc"),
    *memories.urlpatterns,
    *insights.urlpatterns,
    *changesets.urlpatterns,
    *catalog.urlpatterns,
    *analyses.urlpatterns,
    *graph.urlpatterns,
    *conversations.urlpatterns,
    *hooks.urlpatterns,
    *suggestions.urlpatterns,
    *debt.urlpatterns,
    *imports.urlpatterns,
    *exports.urlpatterns,
    *webhooks.urlpatterns,
    *subscriptions.urlpatterns,
    *own.urlpatterns,
    *administration.urlpatterns,
    *upstreams.urlpatterns,
    *people.urlpatterns,
]
