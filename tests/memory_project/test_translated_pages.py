"""Every page in the pseudo-locale: a text that is neither marked as translated nor data has no translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from django.apps import apps
from django.db import models
from django.test import Client

from distribution import messages
from foundation.database import identity
from foundation.people.caller import Caller
from memories import services
from memories.operations import Remember
from memory_project.models import User
from memory_project.portal import labels
from tests.e2e.accessibility import NO_PAGES, START, name_of
from tests.memory_project.export_world import make_world
from tests.memory_project.pseudo_locale import marked, pseudo_locale, unmarked

LETTERS = re.compile(r"[^\W\d_]{2,}")
# Fragments that are the same in every language, with the reason. Removed in this order, so the longer ones come first.
SAME = [
    (r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\d(?: [\d:]+)?", "ids and times as they are stored"),
    (r"Commonplace|MCP|OAuth|REST API|OpenAPI|Swagger UI|Redoc|DataHub|Standard Webhooks|ChatGPT|Claude\b.*", "names"),
    (r"Cursor|VS Code|Codex|Gemini CLI|Windsurf|Zed|Goose|OpenCode|Markdown|basic-memory|mem0", "names"),
    (r"mcp-memory-service", "names"),
    (r"English|Deutsch|Español", "languages are named in themselves"),
    (r"CSV|JSON lines|JSON|SQL|URNs?|UTC|GET|POST|kB|MB", "file formats and units"),
    (r"urn:li:\S*|https?://\S*|~?/?[\w.-]*/[\w./~-]*|\S+@\S+|[0-9a-f]{8,}", "identifiers and addresses"),
    (r"\d+ (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)(?: \d{4})?", "dates of the locale"),
    (r"title|aria-label|placeholder|alt|value(?==)", "the attribute of the text"),
    ("|".join(sorted({model._meta.db_table for model in apps.get_models()}, key=len, reverse=True)), "names of tables"),
    (r"alt=(?:True|False)", "Django's icons of boolean values"),
    (r"Settings → Developer → Edit Config|zed: open settings file|%APPDATA%/\S*", "menus and files of other programs"),
    (r"PostgreSQL \d+|deterministic(?:-384)?", "versions and models"),
    (r"Revenue", "the word that a correction of the test's data keeps"),
]
# Routes whose pages are in English: the help, and those for programs and for operators of the database.
ENGLISH = {"help", "api-start", "api-docs", "api-redoc", "api-schema"}
DJANGO = (
    "_add",
    "_delete",
    "_history",
    "_password_change",
)  # pages of tables whose texts are Django's; those of django_q_ have no translation
# ids, times and rows' own names, which can't be told from texts, and states of the machinery that are stored in English
MAX_UNTRANSLATED = 57
MAX_LITERALS = 1  # the name of the REST API


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "a" and values.get("href") and "download" not in values:
            self.found.append(values["href"] or "")


def crawl(client: Client) -> dict[str, str]:
    """Return the HTML of one page of each route that links lead to."""
    pages: dict[str, str] = {}
    waiting = list(START)
    seen: set[str] = set()
    while waiting:
        address = waiting.pop(0)
        route = name_of(address)
        key = f"{route} {address}" if address in START else route
        if (
            not route
            or route in NO_PAGES | ENGLISH
            or route.endswith(DJANGO)
            or route.startswith("django_q_")
            or key in seen
        ):
            continue
        seen.add(key)
        response = client.get(address, follow=True)
        if response.status_code != 200 or not response.headers["content-type"].startswith("text/html"):
            continue
        pages[address] = response.content.decode()
        links = Links()
        links.feed(pages[address])
        for link in links.found:
            parts = urlsplit(urljoin(address, link))
            if not parts.netloc:
                waiting.append(f"{parts.path}?{parts.query}".rstrip("?"))
    return pages


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from strings_of(key)
            yield from strings_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from strings_of(item)


def stored_texts() -> set[str]:
    """Return the texts in the database that are data: not the values of choices, which pages show by a label."""
    texts: set[str] = set()
    kinds = (models.CharField, models.TextField, models.JSONField)
    for model in apps.get_models():
        shown = [
            field.attname
            for field in model._meta.concrete_fields
            if (isinstance(field, kinds) or hasattr(field, "base_field"))
            and not field.choices
            and not field.is_relation
        ]
        for row in model._base_manager.values_list(*shown):
            texts |= {" ".join(text.split()).lower() for text in strings_of(list(row))}
    values = {*labels.LABELS, *labels.HAPPENED}
    return {text for text in texts if len(text) > 1 and text not in values}


def remainder(text: str, data: list[str]) -> str:
    """Return what is left of a text without data and fragments that are the same in every language."""
    text = text.removesuffix(" · Commonplace").removeprefix("› ").lower()  # titles and paths capitalize data
    if len(text.split()) > 1 and any(text.rstrip("… ") in stored for stored in data):
        return ""  # a part of a stored text, as word-by-word differences show it
    for pattern, _ in SAME:
        text = re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", " ", text, flags=re.IGNORECASE)
    for stored in data:
        if stored in text:
            text = re.sub(rf"(?<!\w){re.escape(stored)}(?!\w)", " ", text)
    return text if LETTERS.search(text) else ""


@pytest.fixture
def world(small_catalog: None, alice: Caller, bob: Caller, ada: Caller) -> None:
    make_world(alice, bob, ada)
    make_world(ada, bob, ada)
    stale = services.remember(ada, Remember(content="Orders are counted twice in May.")).record
    services.mark_stale(ada, record_id=stale.pk, reason="The table was rebuilt.")


@pytest.mark.django_db
def test_every_text_of_a_page_is_translated_or_data(world: None, ada_user: User) -> None:
    client = Client()
    client.force_login(ada_user)
    with pseudo_locale():
        pages = crawl(client)
    with identity.service("command"):
        data = sorted(stored_texts(), key=len, reverse=True)
    found: dict[str, set[str]] = {}
    for address, html in pages.items():
        for text in unmarked(html):
            if LETTERS.search(text) and text not in found and remainder(text, data):
                found.setdefault(text, set())
            if text in found:
                found[text].add(name_of(address))
    faults = [f"{text[:120]!r} on {', '.join(sorted(routes)[:5])}" for text, routes in sorted(found.items())]
    assert len(faults) <= MAX_UNTRANSLATED, f"{len(faults)} texts without translation:\n" + "\n".join(faults)


def test_the_pseudo_locale_keeps_placeholders_and_markup() -> None:
    assert marked("Sign out") == "⟦Siign oouut⟧"
    assert unmarked("<p title='⟦a⟧ b'>⟦<b>x</b> y⟧ and z</p><code>c</code>") == ["title=b", "and z"]


def test_texts_in_template_tags_are_translated() -> None:
    """Such a text ends up within a translated sentence, where the test above takes it for data."""
    literal = re.compile(r'(?:default|default_if_none):"[A-Za-z][^"]*"|"(?:since|day|minute|age)" "[A-Za-z][^"]*"')
    found = [
        f"{file.name}: {match[0]}"
        for file in sorted(messages.ROOT.glob("templates/**/*.*"))
        for match in literal.finditer(file.read_text())
    ]
    assert len(found) <= MAX_LITERALS, "\n".join(found)
