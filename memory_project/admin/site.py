from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.response import TemplateResponse
from django.urls import URLPattern, URLResolver, path, reverse

from knowledge.freshness import stale_detection
from memory_project.admin.tables import PAGES, SECTIONS, TITLES


class CommonplaceAdminSite(AdminSite):
    """Django's admin for the tables, plus the project's own pages for everyday administration."""

    site_header = "Commonplace"
    site_title = "Commonplace"
    index_title = "Dashboard"
    site_url = "/"
    enable_nav_sidebar = False
    table_titles = TITLES

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        self.disable_action("delete_selected")  # rows are forgotten, revoked or erased by services instead

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        context = super().each_context(request)
        if self.has_permission(request):
            context["catalog_degraded"] = stale_detection.degraded()
        return context

    def get_urls(self) -> list[URLPattern | URLResolver]:
        from memory_project.admin.pages import (  # noqa: PLC0415 - needs the models
            connected_systems,
            indexing,
            people,
            second_approval,
            system,
            upstream_tools,
        )
        from memory_project.portal.views import activity  # noqa: PLC0415 - needs the models

        view = self.admin_view
        return [
            path("indexing/", view(indexing.indexing), name="indexing"),
            path("indexing/act/", view(indexing.index_action), name="indexing-act"),
            path("audit/", view(activity.audit), name="audit"),
            path("people/", view(people.people_list), name="people"),
            path("people/invite/", view(people.invite), name="invite"),
            path("people/<int:person_id>/", view(people.person_detail), name="person"),
            path("people/<int:person_id>/<slug:act>/", view(people.change_person), name="person-act"),
            path("second-approval/", view(second_approval.second_approval), name="second-approval"),
            path("system/", view(system.system), name="system"),
            path("system/connected/", view(connected_systems.connected_systems), name="connected-systems"),
            path("system/test/", view(connected_systems.test_connection), name="system-test"),
            path("upstream-tools/", view(upstream_tools.tool_list), name="upstream-tools"),
            path("upstream-tools/undo/", view(upstream_tools.undo), name="upstream-tools-undo"),
            path(
                "upstream-tools/accept/<slug:upstream>/", view(upstream_tools.accept_all), name="upstream-tools-accept"
            ),
            path("upstream-tools/<int:pin_id>/", view(upstream_tools.tool_detail), name="upstream-tool"),
            path("upstream-tools/<int:pin_id>/<slug:act>/", view(upstream_tools.decide), name="upstream-tool-act"),
            path("tables/", view(self.tables), name="tables"),
            *super().get_urls(),
        ]

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        # the portal has the only sign-in page
        if request.user.is_authenticated:
            raise PermissionDenied
        return redirect_to_login(request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index"))

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        from memory_project.portal.views.account import SignOut  # noqa: PLC0415 - needs the models

        return SignOut.as_view()(request)  # which signs out at the company, too

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        from memory_project.admin.pages import dashboard  # noqa: PLC0415 - needs the models

        context = {**self.each_context(request), **dashboard.context(request), **(extra_context or {})}
        request.current_app = self.name
        return TemplateResponse(request, "admin/index.html", context)

    def app_index(self, request: HttpRequest, app_label: str, extra_context: dict[str, Any] | None = None) -> Any:
        return redirect("admin:tables")  # one page lists the tables of all apps

    def tables(self, request: HttpRequest) -> HttpResponse:
        context = {"sections": self.sections(request)}
        return render(request, "operate/tables.html", context)

    def sections(self, request: HttpRequest) -> list[tuple[str, list[dict[str, Any]]]]:
        """Return the tables that the person may see, below their headings."""
        visible = {
            model["model"]._meta.label_lower: {**model, "app": app["name"]}
            for app in self.get_app_list(request)
            for model in app["models"]
        }
        sections: dict[str, list[dict[str, Any]]] = {}
        for heading, tables in SECTIONS.items():
            rows = [{**visible.pop(label), "title": title} for label, title in tables.items() if label in visible]
            for row in rows:
                if page := PAGES.get(row["model"]._meta.label_lower):
                    row["admin_url"] = reverse(page)
            if rows:
                sections[str(heading)] = rows
        for model in visible.values():  # of apps that a company has added
            sections.setdefault(str(model["app"]), []).append({**model, "title": model["name"]})
        return list(sections.items())
