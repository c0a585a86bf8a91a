from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml

from foundation.cases.kinds import Case
from foundation.downloads import list_export
from foundation.operations.display import show_invisible as visible_text
from foundation.work import jobs
from knowledge.catalog.entity_names import display_name
from knowledge.catalog.entity_view import short_name
from knowledge.changesets import diff
from knowledge.contradictions.cases import PairSide
from knowledge.models import Change
from knowledge.review.review_page import CatalogEffect
from memories import queries
from memories.extensions import EntityCandidate
from memories.models import MemoryRecord
from memories.retrieval.recall import RecallHit
from memories.texts import sequence_matching
from memories.writing.bulk_actions import UNCHANGED
from memories.writing.entity_assignment import Offer
from memory_project.accounts.names import name_of
from memory_project.portal import labels, memory_list, validity_texts
from memory_project.portal.form_fields import scope_groups
from memory_project.portal.help_topics import topic_of
from memory_project.portal.search import passages
from memory_project.portal.undo_messages import undo_in
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label
from memory_project.web.page_version import page_version

register = template.Library()
register.simple_tag(undo_in, name="undo_of")
MARKUP = re.compile(r"[*_`#>|\[\]]+")  # characters of Markdown syntax, which the rendered page doesn't show
MAX_HEADING = 120  # characters of a memory's text in a heading
EDGE_WORDS = 4  # number of words at each end of a passage by which the browser finds it

# Texts of agents are not trusted: HTML in them is escaped, and images are not rendered.
_markdown = MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")


@register.inclusion_tag("_select.html")
def choose(
    name: str, options: Iterable[Any], chosen: object = "", first: str = "", id: str = "", required: bool = False
) -> dict[str, Any]:
    """Render a select. `first` is the label of an empty choice before the others.

    `options` are pairs of value and label, a mapping of them, objects that have both, or values that are their labels.
    """
    pairs = options.items() if isinstance(options, Mapping) else map(_value_and_label, options)
    return {"name": name, "options": list(pairs), "chosen": chosen, "first": first, "id": id, "required": required}


def _value_and_label(option: Any) -> tuple[Any, Any]:
    if isinstance(option, tuple):
        value, label = option
        return value, label
    return getattr(option, "value", option), getattr(option, "label", option)


@register.inclusion_tag("_nav_link.html", takes_context=True)
def nav_link(context: Mapping[str, Any], name: str, icon: str, label: str, count: int = 0) -> dict[str, Any]:
    """Render a navigation link, marked as current on its page and on pages below its address.

    A count of the navigation is shown up to MAX_BADGE, see `badge`.
    """
    href = reverse(name)
    path = context["request"].path
    is_current = path == href or (href not in ("/", "/admin/") and path.startswith(href))
    if name == "admin:tables":
        is_current = context.get("opts") is not None or path == href  # also on the pages of a single table
    return {"href": href, "icon": icon, "label": label, "count": count, "current": is_current}


@register.simple_tag(takes_context=True)
def help_topic(context: Mapping[str, Any]) -> str:
    """Return the topic of the help that explains the current page."""
    match = context["request"].resolver_match
    return topic_of(match.url_name or "" if match else "")


@register.inclusion_tag("_export_list.html", takes_context=True)
def export_links(context: Mapping[str, Any], filters: str = "") -> dict[str, str]:
    """Render links that download all rows of a list. `filters` replaces the query string of the page, as "?a=b"."""
    request = context["request"]
    if filters:
        query = filters.removeprefix("?")
    else:
        params = request.GET.copy()
        for name in ("after", "page", "from", "p", "o", list_export.PARAMETER):  # position, order and format
            params.pop(name, None)
        query = params.urlencode()
    return {"path": request.path, "query": f"{query}&" if query else ""}


@register.filter
def markdown(text: str) -> SafeString:
    html = _markdown.render(visible_text(text))  # safe: the renderer escapes text, and raw HTML is off
    return SafeString(html.replace("<pre>", '<pre tabindex="0">'))  # focusable, so that the keyboard can scroll it


@register.filter
def plain_text(text: str) -> str:
    """Return a text on one line, without the markup of Markdown."""
    return visible_text(" ".join(re.sub(r"(?m)^[ \t]*(?:#+|[*>-])[ \t]+|\*\*|`", "", text).split()))


@register.filter
def is_one_line(text: str) -> bool:
    """Return whether a text is short and has no markup, so that a heading can show it in full."""
    return (
        len(text) <= MAX_HEADING
        and _markdown.render(visible_text(text)) == f"<p>{escapeHtml(visible_text(text))}</p>\n"
    )


@register.filter
def visible(text: str) -> str:
    """Show invisible characters as code points, so that they can't change how the surrounding text reads."""
    return visible_text(str(text))


@register.filter
def offered(offer: Offer, record: MemoryRecord) -> Sequence[EntityCandidate]:
    """Return what an unsettled memory may be about."""
    return offer.of(record)


@register.filter
def entity_name(urn: str) -> str:
    return display_name(urn)


@register.filter
def entity_tail(urn: str) -> str:
    """Return the last two parts of an entity's name, for places with little room."""
    return ".".join(display_name(urn).split(".")[-2:])


@register.filter
def scope_name(scope: str) -> str:
    """Return the name in a scope, for lists, where a query for its label would be one for each row."""
    name = scope.partition(":")[2]
    return short_name(name) if name.startswith("urn:") else name


@register.filter
def person(email: str | None) -> str:
    """Return the name of the person with this address, or the address if it has none."""
    return name_of(email) if email else ""


@register.filter
def byline(record: MemoryRecord) -> str:
    """Return who wrote the memory's text, by name."""
    author = name_of(record.created_by)
    if not record.edited_by:
        return author
    return gettext("%(author)s, reworded by %(editor)s") % {"author": author, "editor": name_of(record.edited_by)}


@register.inclusion_tag("_job_note.html")
def job_note(kind: str, target: UUID) -> dict[str, Any]:
    """Say of unfinished work how many people are before it, or that it was stopped and is tried again."""
    job = jobs.job_of(kind, target)
    return {"job": job, "ahead": jobs.people_ahead(job) if job and job.turn_at is None else 0}


@register.inclusion_tag("cases/_verdict.html")
def verdict(case: Case, name: str, style: str = "", label: str = "") -> dict[str, Any]:
    """Render the button of a verdict, or nothing if the reader may not give it. `style` is a class of buttons."""
    if name not in case.allowed:
        return {}
    given = case.kind.verdict(name)
    return {"case": case, "verdict": given, "label": label or given.label, "style": style}


@register.filter
def scope_options(side: PairSide) -> list[tuple[str, list[tuple[str, str]]]]:
    return scope_groups(side.scopes, side.chosen)


@register.simple_tag
def highlight(text: str, query: str) -> SafeString:
    """Mark the words of the query in a text, including longer words that begin with one of them."""
    text = visible_text(text)
    pattern = passages.words_of(query)
    if pattern is None:
        return format_html("{}", text)
    parts = pattern.split(text)
    marked = (format_html("<mark>{}</mark>", part) if index % 2 else format_html("{}", part)
              for index, part in enumerate(parts))  # fmt: skip
    return SafeString("".join(marked))  # each part is escaped


@register.simple_tag
def hit_passage(hit: RecallHit, query: str) -> str:
    """Return the part of a hit's text that matches, for a result list. "…" stands for what is left out."""
    return passages.excerpt(hit.content, query, hit.passage)


@register.filter
def text_fragment(passage: str) -> str:
    """Return a URL fragment that makes the browser highlight this passage (URL Fragment Text Directives, WICG).

    Returns "" for an empty passage.
    """
    if not passage:
        return ""
    all_words = MARKUP.sub("", visible_text(passage)).strip("… ").split()
    ends = [all_words] if len(all_words) <= 2 * EDGE_WORDS else [all_words[:EDGE_WORDS], all_words[-EDGE_WORDS:]]
    return "#:~:text=" + ",".join(quote(" ".join(part), safe="").replace("-", "%2D") for part in ends)


@register.filter
def fault_of(effect: CatalogEffect) -> str:
    """Return the reason why a change can't be made, or "" if it can. Fields are named by their labels."""
    return visible_text(message_with_label(effect.refusal) if effect.refusal else effect.error)


@register.filter
def item(mapping: Mapping[Any, Any], key: Any) -> Any:
    """Look up a key that is itself a template variable. Returns None if the mapping has no such key."""
    return mapping.get(key)


@register.filter
def capped(count: int) -> str:
    """Return a count of at most MAX_COUNT + 1 rows, with a "+" if there may be more."""
    return memory_list.format_count(count)


@register.filter
def badge(count: int) -> str:
    """Return a count of the navigation, which stops at MAX_BADGE + 1, with a "+" if there may be more."""
    return memory_list.up_to(queries.MAX_BADGE, count)


@register.filter
def value_name(value: str) -> str:
    """Return the name of a fixed value of a memory, such as a status or category."""
    return str(labels.title_of(value))


@register.filter
def as_sentence(text: str) -> str:
    """Return the message of an error, which has neither a capital letter nor a full stop, as a sentence."""
    return f"{capfirst(text)}." if text and text[-1] not in ".!?" else str(capfirst(text))


@register.filter
def outcome(text: str) -> str:
    """Return why a bulk action left a row as it was."""
    return gettext("needs no change") if text == UNCHANGED else visible_text(text)


@register.filter
def readers(record: MemoryRecord) -> str:
    """Return who may read a memory."""
    return labels.readers_of(record)


@register.filter
def words(value: str) -> str:
    """Show a stored value, such as a state or a category, in the user's language."""
    return labels.label_of(value)


@register.simple_tag
def moment(at: datetime | None, style: str = "since", missing: str = "–") -> SafeString:
    """Render a time as a `<time>` element whose title is the exact time in the user's zone and locale.

    The style is `since` (“3 hours ago”), `age` (the same, abbreviated), `day` (date) or `minute` (date and time).
    """
    if not at:
        return format_html("{}", missing)
    exact = locale.minute(at)
    text = {"since": naturaltime, "age": locale.age, "day": locale.day, "minute": locale.minute}[style](at)
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exact, text)


register.filter("valid_text", validity_texts.valid_text)
register.filter("ends_soon", validity_texts.ends_soon)


@register.filter
def number(value: float | str | None) -> str:
    return "" if value is None or value == "" else locale.number(value)  # type: ignore[arg-type]  # a number


@register.filter
def day(at: datetime | None) -> str:
    """Format a date as text, for mails."""
    return locale.day(at) if at else ""


@register.filter
def happened(change: str) -> str:
    return labels.happened(change)


@register.simple_tag(name="page_version")
def render_page_version() -> str:
    return page_version()


@register.filter
def percent(value: float | None) -> str:
    return "–" if value is None else locale.percent(max(value, 0))


@register.simple_tag
def change_title(change: Change) -> str:
    return diff.title(change.aspect, change.path)


@register.inclusion_tag("_changes.html")
def readable_changes(changes: Any, applied: bool = False) -> dict[str, Any]:
    return {"changes": changes, "applied": applied}


# Two changes with fewer unchanged words than this between them are easier to read as one change.
MIN_UNCHANGED_WORDS = 2
MAX_COMPARED = 20_000  # characters of a text; a memory has at most 4,000
MIN_RATIO = 0.4  # minimum similarity, from 0 to 1, for a word-by-word diff; other texts are shown one after the other


@register.simple_tag
def word_diff(before: str, after: str) -> SafeString:
    """Render the differences between two texts, word by word.

    Very different texts, and those that repeat a few words hundreds of times, are shown one after the other.

    Each mark contains the hidden label “removed” or “added” for screen readers.
    """
    before = visible_text(before[:MAX_COMPARED])
    after = visible_text(after[:MAX_COMPARED])
    old = re.findall(r"\S+\s*", before)
    new = re.findall(r"\S+\s*", after)
    matcher = sequence_matching.matcher([word.strip() for word in old], [word.strip() for word in new])
    if matcher is None or matcher.ratio() < MIN_RATIO:
        return (
            format_html("{}<br>{}", _mark_removed(before), _mark_added(after))
            if before and after
            else _mark_removed(before) + _mark_added(after)
        )
    parts: list[SafeString] = []
    removed_text = ""
    added_text = ""
    codes = matcher.get_opcodes()
    for index, (kind, i, j, k, m) in enumerate(codes):
        is_short_gap = kind == "equal" and j - i < MIN_UNCHANGED_WORDS and 0 < index < len(codes) - 1
        if kind != "equal" or is_short_gap:
            removed_text = removed_text + "".join(old[i:j])
            added_text = added_text + "".join(new[k:m])
            continue
        space = "" if added_text else _space_after(removed_text)
        parts += [_mark_removed(removed_text, space), _mark_added(added_text), format_html("{}", "".join(new[k:m]))]
        removed_text = ""
        added_text = ""
    return SafeString("".join([*parts, _mark_removed(removed_text), _mark_added(added_text)]))  # each part is escaped


def _space_after(text: str) -> str:
    return text[len(text.rstrip()) :]


def _mark_removed(text: str, space: str = "") -> SafeString:
    # The space after the element separates the removed words from the added words.
    return (
        format_html('<del><span class="sr">{} </span>{}</del>{}', gettext("removed"), text.rstrip(), space or " ")
        if text
        else SafeString("")
    )


def _mark_added(text: str) -> SafeString:
    if not text:
        return SafeString("")
    # The line breaks of preformatted texts are kept.
    return format_html(
        '<ins><span class="sr">{} </span>{}</ins>{}', gettext("added"), text.rstrip(), _space_after(text)
    )
