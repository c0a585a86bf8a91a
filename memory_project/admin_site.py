from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

from knowledge.catalog import staleness


class CommonplaceAdminSite(AdminSite):
    site_header = "Commonplace"
    site_title = "Commonplace"
    index_title = "Curate and operate"
    site_url = "/"
    enable_nav_sidebar = False

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """With what is degraded: every page says it."""
        context = super().each_context(request)
        if self.has_permission(request):
            context["catalog_degraded"] = staleness.degraded()
        return context
