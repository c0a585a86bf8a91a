"""Template context of every page: the caller, and the navigation with its counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise

from foundation.cases.kinds import CaseKind, kinds_for
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.changesets import approvals
from knowledge.insights import queries as curation
from knowledge.models import Changeset, Insight
from memories import queries
from memory_project.models import SavedView
from memory_project.notifications import inbox
from memory_project.portal.search import saved_views
from memory_project.portal.sections import FOR_CURATORS, FOR_EVERYONE, Section, SectionPage, current_page

KEPT = "navigation"  # the attribute of a request that keeps its navigation
CASES = "cases"  # before the name of a kind, in the names of the counts


@dataclass(frozen=True)
class NavigationView:
    """A saved view in the navigation."""

    pk: int
    name: str
    page: str
    address: str
    count: int | None  # None if the rows of the view are not counted


@dataclass(frozen=True)
class NavigationLink:
    title: Promise
    href: str
    count: int
    is_current: bool


@dataclass(frozen=True)
class NavigationSection:
    """A section as it is shown. It has its pages and saved views only while the person is in it."""

    title: Promise
    icon: str
    href: str  # of its first page
    count: int
    is_open: bool
    pages: list[NavigationLink]  # none if it has a single page
    views: list[NavigationView]


class Navigation:
    """The navigation of one user. Counts are queried on first use, because page fragments don't need them."""

    def __init__(self, caller: Caller, person_id: int, path: str) -> None:
        self.caller = caller
        self.person_id = person_id
        self.path = path

    @cached_property
    def may_curate(self) -> bool:
        return curation.may_curate(self.caller)

    @cached_property
    def _counts(self) -> dict[str, int]:
        pending = curation.waiting(self.caller) if self.may_curate else Insight.objects.none()
        counted = {
            "waiting": pending,
            **{f"{CASES} {kind.name}": kind.waiting(self.caller) for kind in self._counted_kinds},
            "unread": inbox.unread(self.person_id),
            "second": approvals.for_me(self.caller) if self.may_curate else Changeset.objects.none(),
            "backlog": curation.backlog(self.caller) if self.may_curate else Insight.objects.none(),
            **{
                f"view {view.pk}": saved_views.rows_of(self.caller, view)
                for view in self._saved_views
                if view.page in saved_views.PAGES
            },
        }
        # Every page shows these numbers, and visibility and row-level security check each row that is counted.
        limits = {name: queries.MAX_BADGE for name in counted if name != "unread"}
        return queries.capped_counts(limits, **counted)

    @cached_property
    def _saved_views(self) -> list[SavedView]:
        return list(SavedView.objects.filter(person=self.person_id))

    @property
    def views(self) -> list[NavigationView]:
        return [
            NavigationView(
                view.pk, view.name, view.page, saved_views.address_of(view), self._counts.get(f"view {view.pk}")
            )
            for view in self._saved_views
        ]

    @property
    def sections(self) -> list[NavigationSection]:
        curating = FOR_CURATORS if self.may_curate else ()
        return [self._shown(section) for section in (*FOR_EVERYONE, *curating)]

    def _shown(self, section: Section) -> NavigationSection:
        current = current_page(section.pages, self.path)
        pages = [
            NavigationLink(page.title, reverse(page.route), self._count_of(page), page is current)
            for page in section.pages
            if current is not None and len(section.pages) > 1
        ]
        return NavigationSection(
            title=section.title,
            icon=section.icon,
            href=reverse(section.pages[0].route),
            # the bell shows what is unread
            count=sum(self._count_of(page) for page in section.pages if page.count != "unread"),
            is_open=current is not None,
            pages=pages,
            views=[view for view in self.views if current is not None and view.page in section.view_pages],
        )

    def _count_of(self, page: SectionPage) -> int:
        return int(getattr(self, page.count)) if page.count else 0

    @property
    def admin_views(self) -> list[NavigationView]:
        return [view for view in self.views if view.page.startswith("admin:")]

    @property
    def is_in_admin(self) -> bool:
        return self.path.startswith(reverse("admin:index"))

    @cached_property
    def _counted_kinds(self) -> list[CaseKind]:
        return [kind for kind in kinds_for(self.caller) if kind.is_counted]

    @property
    def case_counts(self) -> dict[str, int]:
        """The number of cases that wait for the person, by kind."""
        return {kind.name: self._counts[f"{CASES} {kind.name}"] for kind in self._counted_kinds}

    @property
    def inbox(self) -> int:
        """The number of all cases that wait for the person."""
        return sum(self.case_counts.values())

    @property
    def unread(self) -> int:
        return self._counts["unread"]

    @property
    def waiting(self) -> int:
        return self._counts["waiting"]

    @property
    def second(self) -> int:
        """The number of changesets that wait for the caller's approval."""
        return self._counts["second"]

    @property
    def backlog(self) -> int:
        """The number of approved insights that are not applied yet."""
        return self._counts["backlog"]


def navigation_of(request: HttpRequest) -> Navigation:
    """Return the navigation of the user, whose counts are queried once for the request."""
    found: Navigation | None = request.__dict__.get(KEPT)
    if found is None:
        caller = caller_from_request(request, channel="portal")
        found = request.__dict__[KEPT] = Navigation(caller, request.user.pk or 0, request.path)
    return found


def navigation(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    nav = navigation_of(request)
    return {"caller": nav.caller, "nav": nav}
