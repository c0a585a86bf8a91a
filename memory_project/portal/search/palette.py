"""Ctrl-K palette: one search over everything that a person can open or do, best match first.

The browser remembers the keys of what was chosen, never its text. It sends them along: `recent` keys are listed while
nothing is typed, and `chosen` keys, those chosen for the same letters, come first. What the person may no longer read
is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from foundation.operations.errors import DomainError
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories.operations import RecallMemories
from memories.retrieval.filters import Filters
from memories.retrieval.recall import recall
from memory_project.portal.search import destinations, palette_rows
from memory_project.portal.search.matching import BEST_TEXT, TEXT_STEP, RowMatch, score

MAX_SHOWN = 12
MAX_MEMORIES = 5
MIN_RECALLED = 3  # minimum number of characters for a search of memories; shorter texts match by chance
MAX_CHOSEN = 3
MAX_RECENT = 8
MAX_KEY = 700  # maximum length of a key; the longest have a URN


@require_safe
@login_required
def search_everything(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    text = UNSTORABLE.sub("", request.GET.get("q", "")).strip()[:200]
    pages = destinations.allowed(caller, is_staff=bool(request.user.is_staff))
    if text:
        chosen = _by_keys(caller, pages, request.GET.getlist("chosen")[:MAX_CHOSEN])
        groups = [("", _found(caller, pages, chosen, text))]
    else:
        recent = _by_keys(caller, pages, request.GET.getlist("recent")[:MAX_RECENT])
        keys = {match.key for match in recent}
        groups = [
            (gettext("Recent"), recent),
            (gettext("Pages and actions"), [match for match in pages if match.key not in keys][:MAX_SHOWN]),
        ]
    context = {"groups": [group for group in groups if group[1]], "q": text}
    return render(request, "portal/_palette.html", context)


def _found(caller: Caller, pages: Sequence[RowMatch], chosen: Sequence[RowMatch], text: str) -> list[RowMatch]:
    found = [*_scored(pages, text), *palette_rows.search(caller, text), *_memories(caller, text)]
    found.sort(key=lambda match: -match.score)  # a stable sort: matches with the same score keep their order
    by_key: dict[str, RowMatch] = {match.key: match for match in chosen}
    for match in found:
        # An insight is a memory, too. The better match of the two is shown.
        if match.target not in {shown.target for shown in by_key.values()}:
            by_key.setdefault(match.key, match)
    return [*list(by_key.values())[:MAX_SHOWN], *_with_text(text)]


def _scored(pages: Sequence[RowMatch], text: str) -> list[RowMatch]:
    scored = [page.with_score(score(page.label, text, page.words)) for page in pages]
    return [page for page in scored if page.score]


def _memories(caller: Caller, text: str) -> list[RowMatch]:
    if len(text) < MIN_RECALLED:
        return []
    try:
        operation = RecallMemories.read({"query": text, "limit": MAX_MEMORIES})
        hits = recall(caller, operation, filters=Filters()).hits
    except DomainError:
        return []  # without memories, the palette still shows everything else
    return [palette_rows.memory_match(hit.record, BEST_TEXT - TEXT_STEP * rank) for rank, hit in enumerate(hits)]


def _by_keys(caller: Caller, pages: Sequence[RowMatch], keys: Sequence[str]) -> list[RowMatch]:
    """Return what these keys stand for, in their order. Unknown keys and what the caller may not read are left out."""
    keys = [key for key in keys if len(key) <= MAX_KEY and not UNSTORABLE.search(key)]
    by_key = {page.key: page for page in pages}
    by_key |= palette_rows.by_keys(caller, [key for key in keys if key not in by_key])
    return [by_key[key] for key in dict.fromkeys(keys) if key in by_key]


def _with_text(text: str) -> list[RowMatch]:
    """Return the actions that use the text itself. They come last, so that there is always something to choose."""
    action = gettext("Action")
    return [
        RowMatch(
            f"text:{key}", label % {"text": text}, f"{reverse(route)}?{urlencode({argument: text})}", action, target=key
        )
        for key, label, route, argument in (
            ("search", gettext("Search My Knowledge for “%(text)s”"), "my-knowledge", "q"),
            ("catalog", gettext("Search the catalog for “%(text)s”"), "knowledge", "q"),
            ("remember", gettext("Remember “%(text)s”"), "create-memory", "content"),
        )
    ]
