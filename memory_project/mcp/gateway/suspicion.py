"""Deterministic rules that flag suspicious texts and changes of upstream tools for the operator who decides on them.

The kinds of attack are those of tool poisoning, shadowing and rug pulls: texts that address the model instead of
describing the tool. A flag is no proof, and its absence is none either.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Any

# zero-width and bidirectional controls, and the tag characters that repeat ASCII invisibly
HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
# phrases that address the model; a description of what a tool does needs none of them
ORDERS = re.compile(
    r"\b(?:ignore|disregard|forget|override|bypass) (?:all |any |the |your |other |previous |earlier |prior )"
    r"|\b(?:before|after|instead of|whenever) (?:you )?"
    r"(?:us(?:e|ing)|call(?:ing)?|answer(?:ing)?|any|every|all|other|another)\b"
    r"|\b(?:you|the (?:agent|assistant|model|llm)) (?:must|should|have to)\b"
    r"|\b(?:do not|don't|never|without) (?:tell|mention|show|inform|ask|reveal)(?:ing)?\b"
    r"|\bsecretly\b|\bsystem prompt\b|\bas an? (?:ai|assistant|language model)\b"
    r"|<(?:important|system|secret|instructions?|admin)>",
    re.IGNORECASE,
)
# strings that only a model would be asked for
SECRETS = re.compile(
    r"(?:~/\.|\.ssh\b|id_rsa|\.env\b|api[_ -]?keys?|passwords?|credentials?|access tokens?|mcp\.json)", re.IGNORECASE
)
ADDRESS = re.compile(r"\b(?:https?|ftp|data)://[^\s\"'<>)]+|\bdata:[a-z]+/[a-z]+;base64", re.IGNORECASE)
BLOB = re.compile(r"[A-Za-z0-9+/]{80,}={0,2}")
ASKS_FOR_CONTEXT = re.compile(
    r"(?:^|_)(?:context|conversation|chat|history|transcript|notes?|reasoning|thoughts?|prompt|sidenote)(?:$|_)",
    re.IGNORECASE,
)
MAX_DESCRIPTION = 4_000  # characters; longer texts take the model's context and hide things from people
MIN_NAME = 6  # letters of a tool's name whose mention elsewhere is no coincidence
SHOWN = 120
SERIOUS = frozenset({"hidden characters", "mentions another tool", "looks like another tool", "asks for secrets"})

# Cyrillic and Greek letters and digits that look like Latin letters; separators are left out
ALIKE = str.maketrans("аеорсухіјѕԁɡοανι01i", "aeopcyxljsdgoavloll", "_-.")

Flag = dict[str, str]  # rule, where, text


def flags(tool: Mapping[str, Any], approved: Mapping[str, Any] | None, others: Collection[str]) -> list[Flag]:
    """Return the flags of a tool in its canonical form. `others` are the names of tools of ours and of other upstreams.

    The tools of one upstream often refer to each other, which tells nothing.
    """
    found = [*_of_texts(tool, others), *_of_name(str(tool["name"]), others), *_of_schema(tool, approved)]
    return list({(flag["rule"], flag["where"]): flag for flag in found}.values())


def is_serious(found: Collection[Flag]) -> bool:
    """Return whether a tool of a first list has to wait for an operator."""
    return any(flag["rule"] in SERIOUS for flag in found)


def _of_texts(tool: Mapping[str, Any], others: Collection[str]) -> Iterator[Flag]:
    names = {name for name in others if len(name) >= MIN_NAME and ("_" in name or "-" in name)}
    for where, text in texts_of(tool):
        if match := HIDDEN.search(text):
            yield _flag("hidden characters", where, f"U+{ord(match[0]):04X}")
        plain = unicodedata.normalize("NFKC", HIDDEN.sub("", text))
        if where.endswith((".$schema", ".$id")):
            continue  # the address of a dialect of JSON Schema
        for rule, pattern in (
            ("gives orders", ORDERS),
            ("asks for secrets", SECRETS),
            ("names an address", ADDRESS),
            ("holds encoded data", BLOB),
        ):
            if match := pattern.search(plain):
                yield _flag(rule, where, plain[max(match.start() - 40, 0) :])
        words = set(re.findall(r"[A-Za-z0-9_-]+", plain))
        if mentioned := sorted(words & names - {str(tool["name"])}):
            yield _flag("mentions another tool", where, ", ".join(mentioned))
        if len(text) > MAX_DESCRIPTION:
            yield _flag("is very long", where, f"{len(text)} characters")


def _of_name(name: str, others: Collection[str]) -> Iterator[Flag]:
    skeleton = _skeleton(name)
    if twin := next((other for other in sorted(others) if other != name and _skeleton(other) == skeleton), ""):
        yield _flag("looks like another tool", "name", twin)
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        yield _flag("has an unusual name", "name", name)


def _of_schema(tool: Mapping[str, Any], approved: Mapping[str, Any] | None) -> Iterator[Flag]:
    arguments = _arguments(tool)
    for name in arguments:
        if ASKS_FOR_CONTEXT.search(name) and (approved is None or name not in _arguments(approved)):
            yield _flag("takes the conversation", f"argument {name}", name)
    if approved is None:
        return
    before = _arguments(approved)
    if added := sorted(set(arguments) - set(before)):
        yield _flag("widened inputs", "arguments", f"new: {', '.join(added)}")
    for name in sorted(set(arguments) & set(before)):
        if arguments[name] != before[name] and _is_wider(before[name], arguments[name]):
            yield _flag("widened inputs", f"argument {name}", "accepts more than before")
    was = approved.get("annotations") or {}
    now = tool.get("annotations") or {}
    if was.get("readOnlyHint") is True and now.get("readOnlyHint") is not True:
        yield _flag("no longer only reads", "annotations", "readOnlyHint")
    if was.get("readOnlyHint") is not True and now.get("readOnlyHint") is True:
        yield _flag("now claims to only read", "annotations", "readOnlyHint")


def texts_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string of a tool with its path, keys of schemas included: each of them reaches the model."""
    if isinstance(value, str):
        yield path or "text", value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            if HIDDEN.search(str(key)) or " " in str(key):
                yield f"{path or 'key'} (key)", str(key)
            yield from texts_of(item, inner)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item, path)


def _arguments(tool: Mapping[str, Any]) -> dict[str, Any]:
    properties = (tool.get("inputSchema") or {}).get("properties")
    return dict(properties) if isinstance(properties, Mapping) else {}


def _is_wider(before: Any, after: Any) -> bool:
    """Return whether a schema seems to accept more values: another type, more or no choices, or no limit."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return True
    if before.get("type") != after.get("type"):
        return True
    if "enum" in before:
        return not set(map(str, after.get("enum", ["*"]))) <= set(map(str, before["enum"]))
    limits = ("maxLength", "maximum", "maxItems", "pattern", "format")
    return any(key in before and before[key] != after.get(key) for key in limits)


def _skeleton(name: str) -> str:
    """Return a name in the form in which look-alikes are equal."""
    text = unicodedata.normalize("NFKD", HIDDEN.sub("", name)).casefold()
    return "".join(char for char in text if not unicodedata.combining(char)).translate(ALIKE)


def _flag(rule: str, where: str, text: str) -> Flag:
    shown = HIDDEN.sub("�", text)
    return {"rule": rule, "where": where[:SHOWN], "text": shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"}
