"""YAML front matter of Markdown files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from foundation.operations.errors import Invalid

MAX_LENGTH = 64_000  # characters
MAX_DEPTH = 25
# Every scalar stays a text, so that versions such as 1.10 aren't changed and no value needs much time to compute.
LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TYPED_LOADER: Any = type(
    "TypedLoader",
    (SAFE_LOADER,),
    {
        "yaml_implicit_resolvers": {  # all but times, which JSON doesn't have
            letter: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for letter, resolvers in SAFE_LOADER.yaml_implicit_resolvers.items()
        }
    },
)
START = re.compile(r"\ufeff?---[ \t]*\n")
END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
NOT_READ = "front_matter_not_read"  # why the front matter of a note was not read, in the metadata of its memory
EMPTY = ("", "~", "null", "Null", "NULL")


def split(text: str, *, typed: bool = False) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text that follows it. Texts without front matter are returned unchanged.

    With `typed`, numbers and booleans are read as such. Raises Invalid if the front matter isn't a YAML mapping, is too
    large, or has anchors or a repeated key.
    """
    start = START.match(text)
    end = END.search(text, start.end()) if start else None
    if not start or not end:  # a horizontal line at the start of a text is no front matter
        return {}, text.removeprefix("\ufeff")
    source = text[start.end() : end.start()]
    if len(source) > MAX_LENGTH:
        raise Invalid(
            f"has {len(source):,} characters", field="front matter", allowed=f"at most {MAX_LENGTH:,} characters"
        )
    try:
        _check_events(source)
        values = yaml.load(source, Loader=TYPED_LOADER if typed else LOADER)
    except (yaml.YAMLError, ValueError) as error:
        problem = getattr(error, "problem", "") or str(error)
        raise Invalid(f"can't be read as YAML ({problem})", field="front matter") from None
    if isinstance(values, str) and values not in EMPTY:  # prose between two horizontal lines
        return {}, text
    values = values if isinstance(values, list | dict) and values else {}
    if not isinstance(values, dict):
        raise Invalid("is not a list of keys with values", field="front matter", allowed="key: value")
    return {key: value for key, value in values.items() if value not in EMPTY}, text[end.end() :]


def split_or_keep(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text. If the front matter can't be read, say so under NOT_READ in its place."""
    try:
        return split(text)
    except Invalid as error:
        start = START.match(text)
        end = END.search(text, start.end()) if start else None
        return {NOT_READ: error.message}, text[end.end() :] if end else text


def why_not_read(data: Mapping[str, Any]) -> str:
    """Return why the front matter of a row's note could not be read, or ""."""
    found = (data.get("metadata") or {}).get("front_matter") or {}
    return str(found.get(NOT_READ, "")) if isinstance(found, dict) else ""


def _check_events(source: str) -> None:
    """Check the structure before anything is built. Aliases could multiply a text, and nesting exhausts the stack."""
    depth = 0
    keys = set()
    is_key = True  # whether the next event on the first level is a key
    for event in yaml.parse(source, Loader=LOADER):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise Invalid("has anchors or aliases", field="front matter", allowed="plain keys and values")
        is_start = isinstance(event, yaml.CollectionStartEvent)
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth == 1 and (is_start or isinstance(event, yaml.ScalarEvent)):
            if is_key and isinstance(event, yaml.ScalarEvent):
                if event.value in keys:
                    raise Invalid(f"has the key {event.value[:40]!r} twice", field="front matter")
                keys.add(event.value)
            is_key = not is_key
        if is_start:
            depth += 1
            if depth > MAX_DEPTH:
                raise Invalid(f"has more than {MAX_DEPTH} levels", field="front matter")
