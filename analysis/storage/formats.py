"""Formats of objects: told from the name or the first bytes, and the beginning of a text in UTF-8."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import ijson

from analysis.sources.interface import UpstreamFailed
from analysis.sources.text_format import detect_encoding
from foundation.operations.errors import LimitReached

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
}
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
TEXT_CONTROLS = "\t\n\r\f\x1b"
NOT_A_NUMBER = re.compile(r"-?\b(?:NaN|Infinity)\b")
# A text ends with its line at the latest, also where it is cut or broken, so that other lines stay as they are.
TEXT_OR_NOT_A_NUMBER = re.compile(rf'"(?:[^"\\\n]|\\.)*+\\?(?:"|(?=\n)|\Z)|{NOT_A_NUMBER.pattern}')


@dataclass(frozen=True)
class ObjectBeginning:
    """The beginning of a text. `is_whole` means that nothing is missing. `is_binary`: it is no text at all."""

    text: str
    encoding: str
    is_whole: bool
    is_gzip: bool
    is_binary: bool


def by_name(key: str) -> str:
    """Return the format that the key's ending names, or ""."""
    name = key.lower().removesuffix(".gz")
    return next((kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)), "")


def beginning(data: bytes, path: Path, most_bytes: int, *, is_whole: bool) -> ObjectBeginning:
    """Decompress and decode the first bytes of an object. Writes the decompressed bytes to `path`.

    Of a compressed object, at most `most_bytes` are decompressed, however well it is compressed.
    """
    is_gzip = data.startswith(GZIP)
    if is_gzip:
        data, is_whole = _decompressed(data, most_bytes, is_whole=is_whole)
    path.write_bytes(data)
    encoding = detect_encoding(path)
    text = data.decode(encoding, errors="replace" if is_whole else "ignore")
    is_binary = any(ord(character) < 32 and character not in TEXT_CONTROLS for character in text[:4_000])
    return ObjectBeginning(text, encoding, is_whole, is_gzip, is_binary)


def _decompressed(data: bytes, most_bytes: int, *, is_whole: bool) -> tuple[bytes, bool]:
    """Return at most `most_bytes`, and whether nothing is missing. A file may have several members, one by one."""
    parts: list[bytes] = []
    room = most_bytes
    pending = data
    while pending and room:
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(pending, room))
        except zlib.error as error:
            if parts:  # what follows the last member may be anything
                return b"".join(parts), False
            raise UpstreamFailed(f"the object is no valid gzip file: {error}") from None
        room -= len(parts[-1])
        if not member.eof:
            return b"".join(parts), False
        pending = member.unused_data
    return b"".join(parts), is_whole and not pending


def whole_lines(begun: ObjectBeginning, most_bytes: int) -> str:
    """Return the text without a last line that is cut. Raises LimitReached if not even the first line is complete."""
    if begun.is_whole:
        return begun.text
    lines, line_end, _ = begun.text.rpartition("\n")
    if not line_end:
        raise LimitReached(f"the first line of the object has more than {most_bytes:,} bytes (text_bytes of the store)")
    return lines + line_end


def json_lines(begun: ObjectBeginning, most_bytes: int) -> str:
    """Return the values of a JSON text as one line each: JSON lines, the items of an array, or a single value.

    Items that are cut are left out. Raises UpstreamFailed if there is no complete value.
    """
    text = begun.text.lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return "".join(_items(text.encode()))
    first_line = text.partition("\n")[0]
    if _is_json(first_line):
        return whole_lines(ObjectBeginning(text, begun.encoding, begun.is_whole, begun.is_gzip, False), most_bytes)
    if begun.is_whole and _is_json(text):
        return json.dumps(json.loads(text), ensure_ascii=False) + "\n"
    raise UpstreamFailed("the object is not valid JSON, or its first value is too large (text_bytes of the store)")


def without_nan(text: str) -> str:
    """Return a JSON text with null in place of NaN and infinity, which are no JSON."""
    if not NOT_A_NUMBER.search(text):
        return text
    return TEXT_OR_NOT_A_NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)


def _items(data: bytes) -> Iterator[str]:
    try:
        for item in ijson.items(BytesIO(data), "item"):
            yield json.dumps(item, ensure_ascii=False, default=_number) + "\n"
    except (ijson.JSONError, RecursionError):  # as at the end of a text that is cut
        return


def _number(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError(type(value).__name__)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
