"""Help about the pages. The texts are Markdown files in `templates/help`, in English."""

from __future__ import annotations

import re
from functools import cache

from django.template.loader import render_to_string
from django.urls import reverse

GENERAL = "pages"
# topic → names of the pages that it explains; the other pages have the general help
TOPICS: dict[str, tuple[str, ...]] = {
    GENERAL: (),
    "this-week": ("this-week", "news", "news-group"),
    "my-knowledge": ("my-knowledge", "saved-views", "batch", "preview-batch"),
    "memory": ("memory", "edit-memory", "create-memory"),
    "ask": ("ask",),
    "inbox": ("inbox",),
    "suggestions": ("my-insights",),
    "entity": ("knowledge", "entity"),
    "graph": ("graph",),
    "citations": ("citations", "citing-document"),
    "stale-review": (),
    "contradictions": (),
    "review": ("review", "review-one", "review-list", "review-edit", "assignment-rules"),
    "changesets": ("changesets", "changeset"),
    "debt": ("debt", "interview"),
}
LINK = re.compile(r"\]\(([a-z-]+)\.md\)")


def topic_of(page: str) -> str:
    """Return the topic that explains a page, given by the name of its URL."""
    return next((topic for topic, pages in TOPICS.items() if page in pages), GENERAL)


def topics() -> list[tuple[str, str]]:
    return [(topic, title(topic)) for topic in TOPICS]


@cache
def title(topic: str) -> str:
    return text(topic).partition("\n")[0].removeprefix("# ")


@cache
def text(topic: str) -> str:
    source = render_to_string(f"help/{topic}.md")
    return LINK.sub(lambda link: f"]({reverse('help', args=[link[1]])})", source)
