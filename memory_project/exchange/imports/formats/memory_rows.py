"""Rows of memories, from values that files of any origin hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.dateparse import parse_date

from foundation.operations.fields import CONTENT_MAX, TAG_LENGTH, TAGS_MAX, UNSTORABLE
from foundation.operations.timestamps import parse_timestamp
from memories.models import Category, Source, Visibility
from memories.validity.rules import MAX_YEARS
from memory_project.exchange.imports.rows import ImportedRow

MAX_KEY = 400  # characters
UNSTORABLE_VALUE = "contains a NUL character, half a surrogate pair, or a value that is not JSON"
FARTHEST_BOUND = timedelta(days=365 * MAX_YEARS)  # from now. A bound beyond it says nothing, and would be refused.
MAX_DEPTH = 20  # nesting levels of a value
MILLISECONDS_FROM = 100_000_000_000  # a larger number of seconds would be after the year 5000
# How programs write that a cell of a table has no value: pandas, Python, SQL
NO_VALUE = {"nan", "nat", "<na>", "none", "null"}
# Fields of memories that another program's agents have written for one person
AGENT_FIELDS = {
    "category": Category.GENERAL.value,
    "source": Source.AGENT_DISCOVERY.value,
    "visibility": Visibility.PRIVATE.value,
}
# Where a long text may be cut, from the best kind of place to the worst.
BREAKS = (re.compile(r"\n[ \t]*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?。！？])\s+"), re.compile(r"\s+"))


def memory_row(place: str, data: Mapping[str, Any], *, key: str = "") -> ImportedRow:
    """Return a row with the fields in `data` that have a value, or a row with a problem."""
    fields = {name: value for name, value in data.items() if value not in (None, "", [], {})}
    content = fields.get("content")
    if not isinstance(content, str) or not content.strip():
        return problem_row(place, "content: is missing; allowed: a text", key=key)
    for name, value in fields.items():
        if not is_storable(value):
            return problem_row(place, f"{name}: {UNSTORABLE_VALUE}", key=key)
    try:
        if "created_at" in fields:
            fields["created_at"] = not_in_future(timestamp(fields["created_at"]))
    except ValueError as error:
        return problem_row(place, f"created_at: {error}; allowed: ISO 8601, or seconds since 1970", key=key)
    return ImportedRow(storable(place), fields, key=storable(key)[:MAX_KEY])


def problem_row(place: str, problem: str, *, key: str = "") -> ImportedRow:
    return ImportedRow(storable(place), {}, storable(problem), key=storable(key)[:MAX_KEY])


def is_storable(value: Any, depth: int = MAX_DEPTH) -> bool:
    """Return whether PostgreSQL can store the value as JSON."""
    if isinstance(value, str):
        return not UNSTORABLE.search(value)
    if isinstance(value, dict):
        items = [*value.keys(), *value.values()]
        return (
            depth > 0 and all(isinstance(key, str) for key in value) and all(is_storable(i, depth - 1) for i in items)
        )
    if isinstance(value, list):
        return depth > 0 and all(is_storable(item, depth - 1) for item in value)
    return value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def storable(text: str) -> str:
    return UNSTORABLE.sub("\ufffd", text)


# Nine digits at least: eight are a date.
SECONDS_AS_TEXT = re.compile(r"[-+]?[0-9]{9,14}(?:\.[0-9]+)?")
# Year to minute or second without separators, as names of notes have it. As milliseconds, it would be a time in 1975 to
# 1977, or after 2500.
COMPACT_DATE = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
COMPACT = re.compile(COMPACT_DATE.pattern + r"(?:[01][0-9]|2[0-3])(?:[0-5][0-9]){1,2}")
ORDINAL_DATE = re.compile(r"[0-9]{4}-[0-9]{3}")  # year and day of the year, of ISO 8601


def timestamp(value: Any) -> str:
    """Return a time in ISO 8601 and UTC, from ISO 8601 or from seconds or milliseconds since 1970.

    A date means the start of that day. Raises ValueError if the value is neither.
    """
    try:
        if isinstance(value, int) and (COMPACT.fullmatch(str(value)) or COMPACT_DATE.fullmatch(str(value))):
            return timestamp(str(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        if isinstance(value, str):
            text = value.strip()
            if COMPACT.fullmatch(text):
                text = f"{text[:8]}T{text[8:]}"
            elif SECONDS_AS_TEXT.fullmatch(text):
                return timestamp(float(text))
            if ORDINAL_DATE.fullmatch(text):
                return datetime.strptime(f"{text} +0000", "%Y-%j %z").isoformat()
            is_date = len(text) <= 10 and parse_date(text) is not None
            if moment := parse_timestamp(f"{text}T00:00:00" if is_date else text):
                return moment.astimezone(UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        pass
    raise ValueError(f"{str(value)[:60]!r} is not a time")


def not_in_future(text: str) -> str:
    """Return the time. Raises ValueError if it is later than the clocks of two machines may differ."""
    if datetime.fromisoformat(text) > timezone.now() + timedelta(days=1):
        raise ValueError(f"{text[:10]} is in the future")
    return text


def timestamp_or_none(value: Any) -> str | None:
    try:
        return timestamp(value)
    except ValueError:
        return None


def past_or_none(value: Any) -> str | None:
    """Return a time as `timestamp` does. One in the future is wrong, and so counts as missing."""
    try:
        return not_in_future(timestamp(value))
    except ValueError:
        return None


def bound_or_none(value: Any) -> str | None:
    """Return a bound of a memory's validity as Remember takes it, or None if it is no time or too far away.

    A date stays a date, because it means the start of a day as `valid_from` and its end as `valid_until`.
    """
    moment = timestamp_or_none(value)
    if moment is None or abs(datetime.fromisoformat(moment) - timezone.now()) > FARTHEST_BOUND:
        return None
    is_date = isinstance(value, str) and parse_date(value.strip()) is not None
    return value.strip() if is_date else moment


def usable_tags(values: Any) -> tuple[list[str], list[str]]:
    """Return the values that can be tags, and the others. A text is a list of tags with commas between them."""
    texts = comma_list(values).split(",") if isinstance(values, str) else _flattened(values)
    cleaned = [text for value in texts if isinstance(value, str) and (text := value.strip().removeprefix("#"))]
    tags: list[str] = []
    others: list[str] = []
    for text in dict.fromkeys(cleaned):
        fits = len(text) <= TAG_LENGTH and "," not in text and len(tags) < TAGS_MAX
        (tags if fits else others).append(text)
    return tags, others


def comma_list(text: str) -> str:
    """Return a list of values with commas between them. It may be written as in JSON or Python: `["a", "b"]`."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return text
    return ",".join(value.strip().strip("\"'") for value in text[1:-1].split(","))


def _flattened(values: Any) -> Iterator[Any]:
    """Yield the values of lists in lists: `[[topic]]` is a link in some programs, and a nested list in YAML."""
    if not isinstance(values, list):
        return
    for value in values:
        if isinstance(value, list):
            yield from _flattened(value)
        elif value is not None:
            yield value if isinstance(value, str) else str(value)


def tagged(values: Any, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields tags and metadata. Values that can't be tags are kept in the metadata."""
    tags, others = usable_tags(values)
    return {"tags": tags, "metadata": {**metadata, "other_tags": others} if others else dict(metadata)}


def split_rows(place: str, data: Mapping[str, Any], *, key: str = "") -> Iterator[ImportedRow]:
    """Yield one row, or several if the content is too long for one memory."""
    content = data.get("content")
    pieces = split_text(content) if isinstance(content, str) else []
    if len(pieces) <= 1:
        yield memory_row(place, data, key=key)
        return
    for number, piece in enumerate(pieces, 1):
        part_key = f"{key} ({number})" if key else ""
        yield memory_row(f"{place}, part {number} of {len(pieces)}", {**data, "content": piece}, key=part_key)


def split_text(text: str, limit: int = CONTENT_MAX) -> list[str]:
    """Cut a text into parts of at most `limit` characters, at blank lines where possible.

    Each cut is in the middle half of what it divides, so that no part is tiny.
    """
    waiting = [text.strip()]
    parts = []
    while waiting:
        part = waiting.pop()
        if len(part) <= limit:
            parts.append(part)
        else:
            end, start = _cut(part)
            waiting += [part[start:].lstrip(), part[:end].rstrip()]
    return [part for part in parts if part]


def _cut(text: str) -> tuple[int, int]:
    """Return the end of the first half and the start of the second."""
    low = len(text) // 4
    middle = len(text) // 2
    high = len(text) * 3 // 4
    for pattern in BREAKS:
        spans = [match.span() for match in pattern.finditer(text, low, high)]
        if spans:
            return min(spans, key=lambda span: abs(span[0] - middle))
    return middle, middle


def joined(parts: Sequence[Any]) -> str:
    """Return the non-empty texts among the parts, with blank lines between them."""
    return "\n\n".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
