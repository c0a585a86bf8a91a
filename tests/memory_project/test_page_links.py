"""Links to pages, which servers over stdio make without loading the pages."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.urls import reverse

from foundation.links import LINKS, url_for
from tests.pages import inbox

KEY = UUID(int=5)
ROUTES = {
    "memory": lambda: reverse("memory", args=[KEY]),
    "edit-memory": lambda: f"/memories/{KEY.hex}/edit/",
    "edit-insight": lambda: f"/review/{KEY.hex}/edit/",
    "insight": lambda: reverse("review-one", args=[KEY]),
    "my-insight": lambda: f"{reverse('my-insights')}#i-{KEY.hex}",
    "inbox": lambda: inbox(),
    "contradictions": lambda: inbox("contradiction"),
    "question": lambda: f"{inbox('question')}#case-{KEY.hex}",
    "suggestion": lambda: f"{inbox('suggestion')}#case-{KEY.hex}",
    "citing-document": lambda: reverse("citing-document", args=[KEY]),
    "wipe": lambda: reverse("wipe", args=[KEY]),
    "stale": lambda: inbox("stale"),
    "webhook": lambda: f"{reverse('webhooks')}#w-{KEY.hex}",
    "upstream-tools": lambda: reverse("admin:upstream-tools"),
    "connected-systems": lambda: reverse("connected-systems"),
    "batch": lambda: reverse("batch", args=[KEY]),
    "entity": lambda: f"{reverse('entity')}?urn={KEY.hex}",
    "changeset": lambda: reverse("changeset", args=[KEY]),
    "analysis-export": lambda: f"{reverse('analysis-export')}?export={KEY.hex}",
}


@pytest.mark.parametrize("kind", sorted(LINKS))
def test_a_link_leads_to_the_page_of_its_kind(kind: str) -> None:
    assert url_for(kind, KEY.hex) == ROUTES[kind]()


def test_keys_are_quoted() -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:x,a&b,PROD)"
    path = url_for("entity", urn)
    assert path == "/knowledge/entity/?urn=urn%3Ali%3Adataset%3A%28urn%3Ali%3AdataPlatform%3Ax%2Ca%26b%2CPROD%29"
