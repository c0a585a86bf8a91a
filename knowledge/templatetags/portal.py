from __future__ import annotations

import difflib
import re

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from knowledge.catalog.facts import short_name

register = template.Library()

# Agents wrote the text: HTML stays text, and no image is ever fetched.
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")


@register.filter
def markdown(text: str) -> SafeString:
    return SafeString(_markdown.render(text))  # the renderer escapes, HTML is off


@register.filter
def entity_name(urn: str) -> str:
    return short_name(urn)


@register.filter
def words(value: str) -> str:
    return value.replace("_", " ")


@register.filter
def percent(value: float | None) -> str:
    return "–" if value is None else f"{max(value, 0):.0%}"


@register.simple_tag
def word_diff(before: str, after: str) -> SafeString:
    """What a correction changed, word by word; marks carry words for those who don't see colours."""
    old, new = re.findall(r"\S+\s*", before), re.findall(r"\S+\s*", after)
    parts: list[SafeString] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[i:j]), "".join(new[k:m])
        if kind == "equal":
            parts.append(format_html("{}", gone))
            continue
        if gone:
            parts.append(format_html('<del><span class="sr">removed </span>{}</del>', gone))
        if come:
            parts.append(format_html('<ins><span class="sr">added </span>{}</ins>', come))
    return format_html_join("", "{}", ((part,) for part in parts))
