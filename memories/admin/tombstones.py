from __future__ import annotations

from django.contrib import admin

from memories.admin.base import AdminsOnly
from memories.models import Tombstone


@admin.register(Tombstone)
class TombstoneAdmin(AdminsOnly):
    list_display = ["created_by", "persona", "erased_by", "erased_at", "record_id"]
    list_filter = ["persona"]
    date_hierarchy = "erased_at"
    search_fields = ["created_by", "erased_by"]
