from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from memories.admin.base import ExportsList
from memories.models import Purpose


@admin.register(Purpose)
class PurposeAdmin(ExportsList):
    list_display = ["name", "title"]
    search_fields = ["name", "title"]

    def get_readonly_fields(self, request: HttpRequest, obj: Purpose | None = None) -> list[str]:
        return ["name"] if obj else []  # memories refer to a purpose by its name
