from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from memories.contract import url_converters  # noqa: F401 - registers the converter <id:…>
from memory_project.rest import (
    administration,
    analyses,
    catalog,
    changesets,
    checks,
    citations,
    contradictions,
    conversations,
    exports,
    graph,
    hooks,
    imports,
    insights,
    memories,
    own,
    people,
    periods,
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
    *checks.urlpatterns,
    *insights.urlpatterns,
    *changesets.urlpatterns,
    *catalog.urlpatterns,
    *analyses.urlpatterns,
    *graph.urlpatterns,
    *contradictions.urlpatterns,
    *conversations.urlpatterns,
    *hooks.urlpatterns,
    *suggestions.urlpatterns,
    *citations.urlpatterns,
    *imports.urlpatterns,
    *exports.urlpatterns,
    *periods.urlpatterns,
    *webhooks.urlpatterns,
    *subscriptions.urlpatterns,
    *own.urlpatterns,
    *administration.urlpatterns,
    *upstreams.urlpatterns,
    *people.urlpatterns,
]
