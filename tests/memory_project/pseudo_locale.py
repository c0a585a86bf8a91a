"""A language made in memory, in which every translated text is marked: `Sign out` becomes `⟦Siign oouut⟧`.

A text on a page that is not marked can't be translated, or is data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html.parser import HTMLParser
from unittest import mock

from babel import Locale
from django.conf import settings
from django.utils.translation import trans_real

from distribution import messages
from memory_project.web import locale

CODE = "xx"
OPEN, CLOSE = "⟦", "⟧"
CONTEXT = "\x04"  # separates a message's context from its text in a catalog
# Text that must stay as it is: placeholders of both kinds, HTML tags and character references.
FIXED = re.compile(r"(%\(\w+\)[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]|%[sd%]|\{[^{}]*\}|<[^<>]*>|&\w+;)")
VOWEL = re.compile(r"([aeiou])")
HIDDEN = {"script", "style", "code", "pre", "kbd", "template", "textarea", "svg"}
VISIBLE_ATTRIBUTES = ("title", "aria-label", "placeholder", "alt", "aria-description", "data-confirm")


@cache
def known() -> frozenset[str]:
    """Return every message that can be translated: our own, and those that Django and its apps have translated."""
    ours = {text for message in messages.extract() for text in messages.texts_of(message.id)}
    # without translations of ours, which must be found in the source
    with mock.patch.object(settings, "LOCALE_PATHS", []):
        catalog = trans_real.DjangoTranslation("de")._catalog  # type: ignore[attr-defined]
    theirs = {key[0] if isinstance(key, tuple) else key for part in catalog._catalogs for key in part}
    return frozenset(ours | {key.rpartition(CONTEXT)[2] for key in theirs})


def marked(text: str, *, known_by: str = "") -> str:
    """Return the pseudo-translation of a message: about a third longer, between brackets.

    A plural form is in the catalog under the singular, `known_by`.
    """
    if (known_by or text) not in known():
        return text
    parts = FIXED.split(text)
    return OPEN + "".join(part if index % 2 else VOWEL.sub(r"\1\1", part) for index, part in enumerate(parts)) + CLOSE


class PseudoTranslation:
    """Stands for a DjangoTranslation. Django calls these methods."""

    def gettext(self, message: str) -> str:
        return marked(message.rpartition(CONTEXT)[2])

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        one, many = (text.rpartition(CONTEXT)[2] for text in (singular, plural))
        return marked(one if number == 1 else many, known_by=one)

    def language(self) -> str:
        return CODE

    def to_language(self) -> str:
        return CODE


@contextmanager
def pseudo_locale() -> Iterator[None]:
    """Show all pages in the pseudo-locale."""
    with (
        mock.patch.dict(trans_real._translations, {CODE: PseudoTranslation()}),  # type: ignore[attr-defined]
        mock.patch.object(locale, "language_of", return_value=CODE),
        mock.patch.object(locale, "locale_of", return_value=Locale("en", "GB")),
    ):
        yield


class Unmarked(HTMLParser):
    """Collects the texts of a page that are outside marked messages."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.depth = 0
        self.hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN:
            self.hidden.append(tag)
        values = dict(attrs)
        shown = [*VISIBLE_ATTRIBUTES, *(["value"] if values.get("type") in ("submit", "button") else [])]
        for name in shown:
            # An attribute is complete in itself.
            self.texts += [f"{name}={part}" for part in outside(values.get(name) or "")]

    def handle_endtag(self, tag: str) -> None:
        if self.hidden and self.hidden[-1] == tag:
            self.hidden.pop()

    def handle_data(self, data: str) -> None:
        for part in re.split(f"([{OPEN}{CLOSE}])", data):
            self.depth += (part == OPEN) - (part == CLOSE)
            if not self.hidden and self.depth == 0 and part not in (OPEN, CLOSE) and (text := " ".join(part.split())):
                self.texts.append(text)


def outside(text: str) -> list[str]:
    """Return the parts of a text that are outside marked messages."""
    parts, depth = [], 0
    for part in re.split(f"([{OPEN}{CLOSE}])", text):
        depth += (part == OPEN) - (part == CLOSE)
        if depth == 0 and part not in (OPEN, CLOSE) and part.strip():
            parts.append(" ".join(part.split()))
    return parts


def unmarked(html: str) -> list[str]:
    parser = Unmarked()
    parser.feed(html)
    return parser.texts
