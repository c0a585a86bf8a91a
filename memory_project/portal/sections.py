"""The navigation: sections, and the pages of each, which are shown below the section that a person is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy


@dataclass(frozen=True)
class SectionPage:
    """A page of a section. `words` are other terms that people type for it, `count` a number of the navigation."""

    title: Promise
    route: str
    words: str = ""
    count: str = ""
    below: tuple[str, ...] = ()  # addresses of other pages that belong to it, besides those below its own

    def is_at(self, path: str) -> bool:
        href = reverse(self.route)
        return path == href or (href != "/" and path.startswith(href)) or path.startswith(self.below)


@dataclass(frozen=True)
class Section:
    title: Promise
    icon: str
    pages: tuple[SectionPage, ...]
    view_pages: tuple[str, ...] = ()  # lists whose saved views are shown in it


FOR_EVERYONE = (
    Section(
        gettext_lazy("Home"),
        "home",
        (
            SectionPage(gettext_lazy("This week"), "this-week", "news changes digest home"),
            SectionPage(gettext_lazy("Inbox"), "inbox", "waits decide suggestions duplicates", count="inbox"),
            SectionPage(gettext_lazy("Notifications"), "news", "news", count="unread"),
        ),
    ),
    Section(
        gettext_lazy("Memories"),
        "book",
        (
            SectionPage(
                gettext_lazy("My Knowledge"),
                "my-knowledge",
                "memories start",
                below=("/memories/", "/batches/", "/views/"),
            ),
            SectionPage(gettext_lazy("Ask"), "ask", "question search what agents get"),
            SectionPage(gettext_lazy("Citations"), "citations", "documents dashboards sources cite"),
        ),
        view_pages=("my-knowledge",),
    ),
    Section(
        gettext_lazy("Catalog"),
        "layers",
        (
            SectionPage(gettext_lazy("Entities"), "knowledge", "data catalog knowledge glossary documents lineage"),
            SectionPage(gettext_lazy("Graph"), "graph", "network nodes relations"),
        ),
    ),
    Section(
        gettext_lazy("Insights"),
        "bulb",
        (SectionPage(gettext_lazy("Insights"), "my-insights", "proposals my insights"),),
    ),
    Section(
        gettext_lazy("Analyses"),
        "gauge",
        (SectionPage(gettext_lazy("Analyses"), "analyses", "sessions findings data"),),
    ),
    Section(
        gettext_lazy("Conversations"),
        "speech",
        (
            SectionPage(gettext_lazy("Conversations"), "conversations", "chats turns threads"),
            SectionPage(gettext_lazy("Decisions"), "user-decisions", "preferences decisions from conversations"),
            SectionPage(gettext_lazy("Cached answers"), "cached-answers", "cache"),
        ),
    ),
)
FOR_CURATORS = (
    Section(
        gettext_lazy("Review"),
        "check",
        (
            SectionPage(gettext_lazy("Review"), "review", "queue approve reject insights", count="waiting"),
            SectionPage(gettext_lazy("Changesets"), "changesets", "applied promoted", count="second"),
            SectionPage(gettext_lazy("Corrections"), "chains", "chains superseded"),
        ),
        view_pages=("review-list",),
    ),
    Section(
        gettext_lazy("Gaps"),
        "question",
        (SectionPage(gettext_lazy("Gaps"), "debt", "knowledge debt missing who knows interview"),),
    ),
)


def current_page(pages: Sequence[SectionPage], path: str) -> SectionPage | None:
    """Return the page at a path: the one with the longest address, as one page may be below another."""
    found = [page for page in pages if page.is_at(path)]
    return max(found, key=lambda page: len(reverse(page.route)), default=None)
