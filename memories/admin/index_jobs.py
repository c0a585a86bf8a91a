from __future__ import annotations

from django.contrib import admin

from memories.admin.base import OperatorsOnly
from memories.models import IndexJob


@admin.register(IndexJob)
class IndexJobAdmin(OperatorsOnly):
    list_display = ["source_kind", "status", "trigger_kind", "attempts", "last_error", "created_at"]
    list_filter = ["status", "source_kind", "trigger_kind"]
    date_hierarchy = "created_at"
