from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from memories.contract import url_converters  # noqa: F401 - registers the converter <id:…>
from memory_project.rest import memories

urlpatterns = [
    path("schema/", SpectacularJSONAPIView.as_view(), name="api-schema"),
    path("memories/", memories.Memories.as_view(), name="api-memories"),
    path("memories/recall/", memories.RecallMemory.as_view(), name="api-recall"),
    path("memories/<id:record_id>/", memories.OneMemory.as_view(), name="api-memory"),
    path("memories/<id:record_id>/supersede/", memories.SupersedeMemory.as_view(), name="api-supersede"),
]
