"""The help about pages: each page leads to a text that exists."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from django.test import Client

from memory_project.models import User
from memory_project.portal import urls
from memory_project.portal.help_topics import TOPICS, topic_of
from tests.docs_tables import ROOT

HELP = ROOT / "templates" / "help"
TEXTS = sorted(HELP.glob("*.md"))


def test_every_topic_has_a_text_and_every_text_a_topic() -> None:
    assert {text.stem for text in TEXTS} == set(TOPICS)


def test_every_page_that_is_explained_exists() -> None:
    explained = list(chain.from_iterable(TOPICS.values()))
    assert len(explained) == len(set(explained))
    assert set(explained) <= {pattern.name for pattern in urls.urlpatterns}
    assert topic_of("ask") == "ask"
    assert topic_of("account") == "pages"


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_links_lead_to_other_topics(text: Path) -> None:
    links = re.findall(r"\]\(([^)]+)\)", text.read_text())
    assert {link.removesuffix(".md") for link in links} <= set(TOPICS)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.stem)
def test_a_topic_is_shown_as_a_page(client: Client, alice_user: User, text: Path) -> None:
    client.force_login(alice_user)
    response = client.get(f"/help/{text.stem}/")
    page = response.content.decode()
    title = text.read_text().splitlines()[0].removeprefix("# ")
    assert f"<h1>{title}</h1>" in page
    assert ".md" not in page


def test_a_page_links_to_its_help(client: Client, alice_user: User) -> None:
    client.force_login(alice_user)
    assert 'href="/help/ask/"' in client.get("/ask/").content.decode()
    assert 'href="/help/pages/"' in client.get("/account/").content.decode()


def test_other_topics_are_not_found_and_strangers_sign_in(client: Client, alice_user: User) -> None:
    assert client.get("/help/ask/")["Location"].startswith("/sign-in/")
    client.force_login(alice_user)
    assert client.get("/help/settings/").status_code == 404
