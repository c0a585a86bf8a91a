from __future__ import annotations

from django.contrib.admin import AdminSite


class CommonplaceAdminSite(AdminSite):
    site_header = "Commonplace"
    site_title = "Commonplace"
    index_title = "Curate and operate"
    site_url = "/"
    enable_nav_sidebar = False
