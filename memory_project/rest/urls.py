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
    graph,
    imports,
    insights,
    memories,
    own,
)

urlpatterns = [
    path("schema/", SpectacularJSONAPIView.as_view(), name="api-schema"),
    *memories.urlpatterns,
    *insights.urlpatterns,
    *changesets.urlpatterns,
    *catalog.urlpatterns,
    *analyses.urlpatterns,
    *graph.urlpatterns,
    *conversations.urlpatterns,
    *imports.urlpatterns,
    *own.urlpatterns,
    *administration.urlpatterns,
]
