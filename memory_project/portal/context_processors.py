"""Template context of every page: the caller, and the navigation with its counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.http import HttpRequest

from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.changesets import approvals
from knowledge.contradictions import queries as contradictions
from knowledge.debt import questions
from knowledge.insights import queries as curation
from knowledge.models import Changeset, Insight
from knowledge.suggestions import queries as suggestions
from memories import queries
from memory_project.mcp.gateway import tool_queue
from memory_project.models import SavedView
from memory_project.notifications import inbox
from memory_project.portal.search import saved_views


@dataclass(frozen=True)
class NavigationView:
    """A saved view in the navigation."""

    pk: int
    name: str
    page: str
    address: str
    count: int | None  # None if the rows of the view are not counted


class Navigation:
    """The navigation of one user. Counts are queried on first use, because page fragments don't need them."""

    def __init__(self, caller: Caller, person_id: int) -> None:
        self.caller = caller
        self.person_id = person_id

    @cached_property
    def may_curate(self) -> bool:
        return curation.may_curate(self.caller)

    @cached_property
    def _counts(self) -> dict[str, int]:
        pending = curation.waiting(self.caller) if self.may_curate else Insight.objects.none()
        counted = {
            "waiting": pending,
            "stale": queries.reviewable_stale(self.caller),
            "suggestions": suggestions.waiting(self.caller),
            "contradictions": contradictions.contradictions(self.caller),
            "questions": questions.open_questions(self.caller),
            "unread": inbox.unread(self.person_id),
            "second": approvals.for_me(self.caller) if self.may_curate else Changeset.objects.none(),
            "tools": tool_queue.waiting_rows(self.caller),
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
    def contradictions(self) -> int:
        """The number of open contradictions."""
        return self._counts["contradictions"]

    @property
    def unread(self) -> int:
        return self._counts["unread"]

    @property
    def waiting(self) -> int:
        return self._counts["waiting"]

    @property
    def tools(self) -> int:
        """The number of upstream tools that wait for an operator."""
        return self._counts["tools"]

    @property
    def second(self) -> int:
        """The number of changesets that wait for the caller's approval."""
        return self._counts["second"]

    @property
    def backlog(self) -> int:
        """The number of approved insights that are not applied yet."""
        return self._counts["backlog"]

    @property
    def suggestions(self) -> int:
        return self._counts["suggestions"]

    @property
    def questions(self) -> int:
        """The number of open questions of interviews."""
        return self._counts["questions"]

    @property
    def stale(self) -> int:
        return self._counts["stale"]


def navigation(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    caller = caller_from_request(request, channel="portal")
    return {"caller": caller, "nav": Navigation(caller, user.pk)}
