from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from knowledge.catalog.entity_view import short_name
from knowledge.changesets import diff
from knowledge.models import Change
from knowledge.review.cases import Effect
from memories.contract.display import show_invisible as visible_text
from memory_project.portal.error_labels import for_people
from memory_project.web import locale

register = template.Library()
MARKUP = re.compile(r"[*_`#>|\[\]]+")  # of Markdown, which is not on the page
EDGE = 4  # words of a passage's beginning and end that tell it

# Agents wrote the text: HTML stays text, and no image is ever fetched.
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")


@register.inclusion_tag("_nav_link.html", takes_context=True)
def nav_link(context: Mapping[str, Any], name: str, icon: str, label: str, count: int = 0) -> dict[str, Any]:
    """A page in the navigation; it is the current one also below its address."""
    href = reverse(name)
    path = context["request"].path
    is_current = path == href or (href not in ("/", "/admin/") and path.startswith(href))
    if name == "admin:tables":
        is_current = context.get("opts") is not None or path == href  # a table's own pages
    return {"href": href, "icon": icon, "label": label, "count": count, "current": is_current}


@register.filter
def markdown(text: str) -> SafeString:
    html = _markdown.render(visible_text(text))  # the renderer escapes, HTML is off
    return SafeString(html.replace("<pre>", '<pre tabindex="0">'))  # it scrolls, by keyboard too


@register.filter
def visible(text: str) -> str:
    """A text of somebody's, in which nothing changes how the text around it reads."""
    return visible_text(str(text))


@register.filter
def entity_name(urn: str) -> str:
    return short_name(urn)


@register.filter
def entity_tail(urn: str) -> str:
    """The telling end of an entity's name, where there is little room."""
    return ".".join(short_name(urn).split(".")[-2:])


@register.filter
def person(email: str) -> str:
    """Somebody where there is little room: what stands before the @."""
    return email.partition("@")[0]


@register.simple_tag
def highlight(text: str, query: str) -> SafeString:
    """The text with the query's words marked, each also as the beginning of a longer one."""
    text = visible_text(text)
    telling = re.findall(r"\w{4,}", query) or re.findall(r"\w{2,}", query)  # “of” and “are” would be everywhere
    words_of_query = [re.escape(word) for word in telling][:20]
    if not words_of_query:
        return format_html("{}", text)
    parts = re.split(rf"(?i)(?<!\w)((?:{'|'.join(words_of_query)})\w*)", text)
    marked = (format_html("<mark>{}</mark>", part) if number % 2 else format_html("{}", part)
              for number, part in enumerate(parts))  # fmt: skip
    return SafeString("".join(marked))  # each part is escaped


@register.filter
def text_fragment(passage: str) -> str:
    """The end of a link that lets the browser mark this passage on the page (URL Fragment Text Directives, WICG);
    nothing where there is none."""
    if not passage:
        return ""
    all_words = MARKUP.sub("", visible_text(passage)).split()
    ends = [all_words] if len(all_words) <= 2 * EDGE else [all_words[:EDGE], all_words[-EDGE:]]
    return "#:~:text=" + ",".join(quote(" ".join(part), safe="").replace("-", "%2D") for part in ends)


@register.filter
def fault_of(effect: Effect) -> str:
    """Why a change can't be made, with fields by the names that people see."""
    return visible_text(for_people(effect.refusal) if effect.refusal else effect.error)


@register.filter
def item(mapping: Mapping[Any, Any], key: Any) -> Any:
    """The value of a mapping under a key that is a variable."""
    return mapping.get(key)


@register.filter
def words(value: str) -> str:
    return value.replace("_", " ")


@register.simple_tag
def moment(at: datetime | None, style: str = "since", missing: str = "–") -> SafeString:
    """A time as people read it, with the exact one in the person's zone and locale behind it: `since` says how long
    ago, `age` does in few letters, `day` and `minute` give the date."""
    if not at:
        return format_html("{}", missing)
    exact = locale.minute(at)
    text = {"since": naturaltime, "age": locale.age, "day": locale.day, "minute": locale.minute}[style](at)
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, text)


@register.filter
def number(value: float | str | None) -> str:
    """With the separators of the person's locale."""
    return "" if value is None or value == "" else locale.number(value)  # type: ignore[arg-type]  # a number


HAPPENED = {
    "remember": "remembered", "supersede": "corrected", "revise": "edited", "forget": "forgotten",
    "restore": "restored", "verify": "found still true", "share": "shared", "mark_stale": "went stale",
    "mark_wrong": "marked wrong", "withdraw_feedback": "that taken back", "capture": "proposed",
    "approve": "approved", "reject": "rejected", "undo_review": "decision taken back", "apply": "applied",
    "undo": "taken back", "mark_fresh": "found as it was", "appeal": "appealed", "approve_edit": "edit approved",
    "roll_back": "rolled back", "edit": "edited in review", "erase": "its correction erased",
}  # fmt: skip


@register.filter
def happened(change: str) -> str:
    """A change's verb as people say what happened."""
    return HAPPENED.get(change, words(change))


@register.filter
def percent(value: float | None) -> str:
    return "–" if value is None else f"{max(value, 0):.0%}"


@register.simple_tag
def change_title(change: Change) -> str:
    return diff.title(change.aspect, change.path)


@register.inclusion_tag("_changes.html")
def readable_changes(changes: Any, applied: bool = False) -> dict[str, Any]:
    """What is or was written to the catalog, each with its text before and after."""
    return {"changes": changes, "applied": applied}


ISLAND = 2  # words: a shorter stretch left alone between two changes reads worse than one change
ALIKE = 0.4  # share of words in common below which two texts are shown one after the other


@register.simple_tag
def word_diff(before: str, after: str) -> SafeString:
    """What a correction changed, word by word; marks carry words for those who don't see colours."""
    before, after = visible_text(before), visible_text(after)
    old, new = re.findall(r"\S+\s*", before), re.findall(r"\S+\s*", after)
    matcher = difflib.SequenceMatcher(None, [word.strip() for word in old], [word.strip() for word in new], False)
    if matcher.ratio() < ALIKE:
        return (
            format_html("{}<br>{}", _mark_removed(before), _mark_added(after))
            if before and after
            else _mark_removed(before) + _mark_added(after)
        )
    parts: list[SafeString] = []
    removed_text, added_text = "", ""
    codes = matcher.get_opcodes()
    for index, (kind, i, j, k, m) in enumerate(codes):
        is_island = kind == "equal" and j - i < ISLAND and 0 < index < len(codes) - 1
        if kind != "equal" or is_island:
            removed_text, added_text = removed_text + "".join(old[i:j]), added_text + "".join(new[k:m])
            continue
        parts += [_mark_removed(removed_text), _mark_added(added_text), format_html("{}", "".join(new[k:m]))]
        removed_text, added_text = "", ""
    return SafeString("".join([*parts, _mark_removed(removed_text), _mark_added(added_text)]))  # each part is escaped


def _mark_removed(text: str) -> SafeString:
    """A space after it, so that what was removed and what took its place are two words."""
    return format_html('<del><span class="sr">removed </span>{}</del> ', text.rstrip()) if text else SafeString("")


def _mark_added(text: str) -> SafeString:
    if not text:
        return SafeString("")
    space = " " if text[-1].isspace() else ""
    return format_html('<ins><span class="sr">added </span>{}</ins>{}', text.rstrip(), space)
