from __future__ import annotations

from django.urls import path

from knowledge import views

urlpatterns = [
    path("", views.my_knowledge, name="my-knowledge"),
    path("memories/new/", views.create_memory, name="create-memory"),
    path("memories/<uuid:record_id>/", views.memory, name="memory"),
    path("memories/<uuid:record_id>/edit/", views.edit_memory, name="edit-memory"),
    path("memories/<uuid:record_id>/<slug:act>/", views.change_memory, name="change-memory"),
]
