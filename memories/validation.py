"""What a memory's fields may be. Each function answers the cleaned value or raises Invalid naming the field."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from memories.contract.errors import Invalid, check_count, check_length

CONTENT_MIN, CONTENT_MAX = 10, 4000  # characters; the memory-layer contract
TURN_MAX = 20_000  # characters of a conversation's turn
SUMMARY_MAX = 1000
URNS_MAX = 10
COLUMNS_MAX = 20
TAGS_MAX = 20
TAG_LENGTH = 80
URN_LENGTH = 500
METADATA_BYTES = 16_000
METADATA_DEPTH = 20  # readers' JSON parsers end somewhere
OFFSET_MAX = 1_000_000
REASON_MAX = 1000
SESSION_KEY = "session_id"
EDITED_BY = "edited_by"  # who wrote the text, where that was not the owner

# Written by services alone: a caller's metadata can never change what state a memory is in or whose it is.
RESERVED_METADATA = frozenset(
    {
        "superseded_by",
        "superseded_at",
        "legacy_created_by",
        "insight_status",
        "reviewed_by",
        "applied_by",
        "changeset_ref",
        "edited_by",
    }
)

URN = re.compile(r"urn:li:[A-Za-z][A-Za-z0-9]*:\S.*")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL's text holds neither NUL nor half a surrogate pair


def clean_id(value: object, field: str = "id") -> UUID:
    if isinstance(value, UUID):
        return value
    text = str(value or "").strip()
    if not text:
        raise Invalid("is missing", field=field, allowed="the id of a memory")
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"{text[:80]!r} is not an id", field=field, allowed="32 hexadecimal digits") from None


def clean_text(field: str, value: object, low: int, high: int) -> str:
    if not isinstance(value, str):
        raise Invalid(f"is {type(value).__name__}", field=field, allowed=f"text of {low} to {high} characters")
    if UNSTORABLE.search(value):
        raise Invalid("contains a NUL character or half a surrogate pair", field=field, allowed="Unicode text")
    return check_length(field, value.replace("\r\n", "\n").strip(), low, high)


def clean_content(value: object) -> str:
    return clean_text("content", value, CONTENT_MIN, CONTENT_MAX)


def clean_reason(value: str) -> str:
    return clean_text("reason", value, 0, REASON_MAX)


def clean_strings(field: str, values: object, most: int, length: int) -> list[str]:
    """Trimmed, without empties and repeats, in the order given."""
    if not isinstance(values, Sequence) or isinstance(values, str) or any(not isinstance(v, str) for v in values):
        raise Invalid("is not a list of texts", field=field, allowed=f"a list of at most {most} texts")
    cleaned = list(dict.fromkeys(clean_text(field, v, 0, length) for v in values if v.strip()))
    check_count(field, cleaned, most)
    return cleaned


def clean_tags(values: object) -> list[str]:
    tags = clean_strings("tags", values, TAGS_MAX, TAG_LENGTH)
    if commas := [tag for tag in tags if "," in tag]:
        raise Invalid(f"{commas[0]!r} contains a comma", field="tags", allowed="texts without commas")
    return tags


def clean_urn(value: str, field: str = "entity_urns") -> str:
    urn = clean_text(field, value, 1, URN_LENGTH)
    if not URN.fullmatch(urn):
        raise Invalid(f"{urn[:80]!r} is not a DataHub URN", field=field, allowed="urn:li:<entity type>:<key>")
    return urn


def clean_urns(values: object, field: str = "entity_urns") -> list[str]:
    return [clean_urn(value, field) for value in clean_strings(field, values, URNS_MAX, URN_LENGTH)]


def clean_columns(values: object) -> list[dict[str, str]]:
    """The columns a memory is about: at most 20 of {urn, column, relevance}."""
    shape = f"at most {COLUMNS_MAX} of {{urn, column, relevance}}"
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise Invalid("is not a list", field="related_columns", allowed=shape)
    check_count("related_columns", list(values), COLUMNS_MAX)
    cleaned = []
    for place, value in enumerate(values):
        field = f"related_columns[{place}]"
        if not isinstance(value, dict) or set(value) != {"urn", "column", "relevance"}:
            raise Invalid("does not have exactly these three keys", field=field, allowed="urn, column, relevance")
        cleaned.append(
            {
                "urn": clean_urn(value["urn"], f"{field}.urn"),
                "column": clean_text(f"{field}.column", value["column"], 1, 300),
                "relevance": clean_text(f"{field}.relevance", value["relevance"], 1, 300),
            }
        )
    return cleaned


def clean_metadata(value: object, *, own_keys: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A JSON object of bounded size; keys that services keep there are refused."""
    if not isinstance(value, dict):
        raise Invalid(f"is {type(value).__name__}", field="metadata", allowed="a JSON object")
    if taken := sorted(RESERVED_METADATA.intersection(value) - own_keys):
        raise Invalid(f"{', '.join(taken)} can't be set", field="metadata", allowed="any other key")
    _check_json(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"is not JSON ({error})", field="metadata", allowed="a JSON object") from None
    if (size := len(text.encode())) > METADATA_BYTES:
        raise Invalid(f"has {size} bytes", field="metadata", allowed=f"at most {METADATA_BYTES} bytes")
    return value


def _check_json(value: Any) -> None:
    """No deeper than METADATA_DEPTH, and nothing in it that PostgreSQL can't keep. Walks without recursion."""
    waiting = [(value, 1)]
    while waiting:
        item, depth = waiting.pop()
        if depth > METADATA_DEPTH:
            raise Invalid("is nested too deep", field="metadata", allowed=f"at most {METADATA_DEPTH} levels")
        if isinstance(item, dict):
            waiting += [(inner, depth + 1) for pair in item.items() for inner in pair]
        elif isinstance(item, list):
            waiting += [(inner, depth + 1) for inner in item]
        elif isinstance(item, str) and UNSTORABLE.search(item):
            raise Invalid("contains a NUL character or half a surrogate pair", field="metadata", allowed="Unicode text")


def check_page(limit: int, offset: int, most: int) -> int:
    """The limit to use: at least 1, at most `most`. Raises Invalid."""
    if limit < 1:
        raise Invalid(f"is {limit}", field="limit", allowed=f"1 to {most}")
    if not 0 <= offset <= OFFSET_MAX:
        raise Invalid(f"is {str(offset)[:20]}", field="offset", allowed=f"0 to {OFFSET_MAX}")
    return min(limit, most)
