"""Completeness of a download: pages that the upstream repeats, and rows that it reports but doesn't deliver."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis import records
from analysis.sources.envelopes import PageOf

PAGES_NAMED = 10  # maximum number of missing pages that are named


def row_keys(rows: Sequence[Mapping[str, Any]], id_field: str) -> tuple[list[str], bool]:
    """Return what identifies each row of a page, and whether these are ids.

    If ids are missing, or not unique on the page, the rows are identified by their content.
    """
    ids = [record_id for row in rows if (record_id := records.id_of(row, id_field)) is not None]
    if len(set(ids)) == len(rows):
        return ids, True
    return [_hash(json.dumps(row, sort_keys=True, default=str)) for row in rows], False


def fingerprint(keys: Sequence[str]) -> str:
    return _hash(json.dumps(keys))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass
class RepeatCheck:
    """Detects pages without a new row, which an upstream returns if its paging doesn't advance."""

    id_field: str
    fingerprints: dict[int, str] = field(default_factory=dict)  # of the pages of earlier calls, too
    ids: set[str] = field(default_factory=set)

    def is_repeat(self, number: int, rows: Sequence[Mapping[str, Any]], *, is_expected: bool = False) -> bool:
        """Return whether another page has the same rows, or earlier pages of this call have all of their ids.

        A page that is no repeat is remembered. `is_expected` says that the upstream reports a page of this number.
        """
        if not rows:
            return False
        keys, are_ids = row_keys(rows, self.id_field)
        page = fingerprint(keys)
        is_repeat = page in {known for other, known in self.fingerprints.items() if other != number}
        if are_ids:
            is_repeat = is_repeat or self.ids.issuperset(keys)
            self.ids.update(keys)
        elif is_expected and (len(keys) == 1 or len(set(keys)) < len(keys)):
            is_repeat = False  # rows that resemble each other can fill several pages
        if not is_repeat:
            self.fingerprints[number] = page
        return is_repeat


def statements(number: int | None, page: PageOf, delivered: int) -> tuple[list[str], list[str]]:
    """Return what a page states that leads to more rows, and what states that it is the last.

    `number` is None if it is unknown. `delivered` is the number of rows of all pages so far.
    """
    more: list[str] = []
    last: list[str] = []

    def state(is_more: bool, text: str, text_of_last: str) -> None:
        if is_more:
            more.append(text)
        else:
            last.append(text_of_last)

    if page.cursor is not None:
        state(bool(page.cursor), "the cursor of a next page", "no cursor of a next page")
    if page.next is not None:
        state(bool(page.next), "a link to a next page", "no link to a next page")
    if page.has_more is not None:
        state(page.has_more, "a flag for more pages", "a flag for the last page")
    if page.stated_pages and number is not None and number > page.stated_pages and page.rows:
        more.append(f"rows on page {number}")
    if page.total is not None and delivered > page.total:
        more.append(f"{delivered} rows so far")
    if page.stated_pages and number is not None:
        state(number < page.stated_pages, f"{page.stated_pages} pages", f"{page.stated_pages} pages")
    if page.total is not None:
        state(delivered < page.total, f"{page.total} records", f"{page.total} records")
    return more, last


def contradiction(number: int, more: Sequence[str], last: Sequence[str]) -> str:
    """Return the sentence for a page whose statements disagree, or "" if they agree."""
    return f"page {number} reports {more[0]}, but also {last[0]}" if more and last else ""


def shortfall(
    *,
    delivered: int | None,
    total: int | None,
    total_pages: int | None,
    pages: Sequence[int],
    repeated_page: int,
    contradicted: str = "",
    largest_total: int | None = None,
) -> str:
    """Return why a download that has ended may lack records, or "" if nothing suggests it.

    `delivered` is the number of rows of all pages, or None if it is unknown. `repeated_page` is the page that ended the
    download because it had no new row, or 0. `contradicted` names two statements of a page that disagree.
    `largest_total` is the largest of the totals that pages have stated.
    """
    if total is not None and delivered is not None and delivered < total:
        return f"the server reports {total} records, but delivered {delivered}"
    if contradicted:
        return f"the server contradicts itself: {contradicted}"
    if largest_total is not None and delivered is not None and delivered > largest_total:
        return f"the server reports {largest_total} records, but delivered {delivered}"
    if total is not None and delivered is not None:
        return ""
    if repeated_page:
        return (
            f"page {repeated_page} has no other rows than the pages before it, and the server doesn't report how many "
            "records it has; if it has more, the source's page_param or envelope may be wrong"
        )
    if missing := sorted(set(range(1, (total_pages or 0) + 1)) - set(pages)):
        named = ", ".join(map(str, missing[:PAGES_NAMED])) + (" and more" if len(missing) > PAGES_NAMED else "")
        return f"the server reports {total_pages} pages, but returned no rows for page {named}"
    return ""
