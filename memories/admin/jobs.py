from __future__ import annotations

from django.contrib import admin

from foundation.work.models import Job
from memories.admin.base import OperatorsOnly


@admin.register(Job)
class JobAdmin(OperatorsOnly):
    list_display = ["kind", "owner", "created_at", "turns", "turn_at", "due_at", "defects", "error", "ended_at"]
    list_filter = ["kind", ("ended_at", admin.EmptyFieldListFilter)]
    search_fields = ["owner"]
    date_hierarchy = "created_at"
