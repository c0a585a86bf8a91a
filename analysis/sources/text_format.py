"""Encoding and delimiter of text files, detected from their content."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

CHUNK = 1 << 20
SAMPLE = 1 << 16  # number of bytes in which the delimiter is detected
DELIMITERS = ",;\t|"
SEPARATOR_LINE = re.compile(r"sep=([,;\t|])", re.IGNORECASE)
NUMBER = re.compile(r"[-+]?[\d.,]*\d")
YEAR = re.compile(r"(?:19|20)\d\d")  # which may be the name of a column
MAX_TITLES = 20  # rows in which a header is looked for
BOMS = {  # that of UTF-32 begins like one of UTF-16
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
NULS = 0.02  # minimum share of NUL bytes at the odd or even places of UTF-16, which has them in spaces and digits
FOREIGN = 0.5  # share of the bytes beyond ASCII that stand together in a text in another script than the Latin one
TOGETHER = re.compile("[\x80-\xff]{3,}")
MIN_FOREIGN = 30  # minimum number of bytes, in several words, that show another script
MIN_NULS = 4
C1 = bytes(range(0x80, 0xA0))  # control characters in latin-1, printable characters in cp1252
NOT_IN_CP1252 = b"\x81\x8d\x8f\x90\x9d"


def detect_encoding(path: Path) -> str:
    """Return the encoding by its BOM or NUL bytes, or else utf-8, cp1252, latin-1, or one of another script.

    A file is still utf-8 if far more of its characters are valid than invalid.
    """
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    for bom, encoding in BOMS.items():
        if start.startswith(bom):
            return encoding
    even = start[::2].count(0)
    odd = start[1::2].count(0)
    if max(even, odd) > max(MIN_NULS, NULS * len(start) / 2, 10 * min(even, odd)):
        return "utf-16-le" if odd > even else "utf-16-be"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    valid = invalid = 0
    has_c1 = False
    is_cp1252 = True
    for chunk in _chunks(path):
        text = decoder.decode(chunk)
        replaced = text.count("\ufffd")
        invalid += replaced
        valid += len(text) - len(text.encode("ascii", "ignore")) - replaced
        has_c1 = has_c1 or len(chunk.translate(None, C1)) < len(chunk)
        is_cp1252 = is_cp1252 and len(chunk.translate(None, NOT_IN_CP1252)) == len(chunk)
    if invalid + decoder.decode(b"", final=True).count("\ufffd") <= valid / 10:
        return "utf-8"
    return _encoding_of_script(start) or ("cp1252" if has_c1 and is_cp1252 else "latin-1")


def _encoding_of_script(start: bytes) -> str:
    """Return the encoding of a text in another script than the Latin one, or "" for any other."""
    beyond = sum(byte >= 0x80 for byte in start)
    words = [word for word in TOGETHER.findall(start.decode("latin-1")) if len(set(word)) > 1]
    if len(words) < 3 or sum(map(len, words)) < MIN_FOREIGN:
        return ""
    if sum(map(len, TOGETHER.findall(start.decode("latin-1")))) <= FOREIGN * beyond:
        return ""
    from charset_normalizer import from_bytes  # noqa: PLC0415 - only for such files

    best = from_bytes(start).best()
    return best.encoding if best and best.encoding not in ("ascii", "utf_8") else ""


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _sample(path: Path, encoding: str) -> list[str]:
    """Return the first lines of a file."""
    with path.open("rb") as file:
        text = file.read(SAMPLE).decode(encoding, "replace")
    lines = text.splitlines(keepends=True)
    return lines[:-1] if len(lines) > 1 and not text.endswith(("\n", "\r")) else lines  # the last one may be cut


def layout(path: Path, encoding: str, delimiter: str = "") -> tuple[str, int]:
    """Return the delimiter of a CSV file, and the number of rows before its header.

    Such rows are titles and comments, which are less than half as wide as the table, and the line `sep=;` of
    spreadsheet programs.
    """
    lines = _sample(path, encoding)
    if lines and (stated := SEPARATOR_LINE.fullmatch(lines[0].strip("\ufeff\r\n"))):
        return _best_layout(lines[1:], delimiter or stated[1], 1)
    return _best_layout(lines, delimiter or DELIMITERS, 0)


def _best_layout(lines: Sequence[str], delimiters: str, skipped: int) -> tuple[str, int]:
    best = ("", skipped)
    best_score = (0.0, 0, 1)
    absent = ""  # a delimiter that splits no line
    for delimiter in delimiters:
        rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        start = _header_row(rows)
        widths = [len(row) for row in rows[start:]]
        if widths and max(map(len, rows)) == 1:
            absent = absent or delimiter
        if widths and widths[0] > 1:
            score = (widths.count(widths[0]) / len(widths), -start, widths[0])
            if score > best_score:
                best = (delimiter, skipped + start)
                best_score = score
    return (best[0] or absent or delimiters[0], best[1])


def _header_row(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of narrow rows before the first row of the usual width, if that is a row of names."""
    widths = [len(row) for row in rows]
    if not widths:
        return 0
    usual = Counter(widths).most_common(1)[0][0]
    widths = [1 if _is_padded_title(row) else len(row) for row in rows]
    if 2 * widths[0] > usual or usual not in widths[:MAX_TITLES]:
        return 0
    start = widths.index(usual)
    numbers = sum(bool(NUMBER.fullmatch(cell.strip())) and not YEAR.fullmatch(cell.strip()) for cell in rows[start])
    return 0 if 2 * numbers > len(rows[start]) else start


def _is_padded_title(row: Sequence[str]) -> bool:
    """Return whether only the first cell of a row may have a text, as spreadsheet programs save titles."""
    return len(row) > 2 and not any(cell.strip() for cell in row[1:])


def sample_rows(path: Path, encoding: str, delimiter: str, skip: int) -> list[list[str]]:
    """Return the first rows below the header."""
    rows = filter(None, csv.reader(_sample(path, encoding), delimiter=delimiter))
    return list(rows)[skip + 1 :]


def delimiter_of(lines: Sequence[str], delimiters: str) -> str:
    """Return the delimiter that splits most of the lines into as many values as the first, or "," if none splits it.

    Takes time in proportion to the length of the text, unlike csv.Sniffer, whose regular expressions don't.
    """
    best = ","
    best_score = (0.0, 1)
    for delimiter in delimiters:
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        if widths and widths[0] > 1:
            score = (widths.count(widths[0]) / len(widths), widths[0])
            if score > best_score:
                best = delimiter
                best_score = score
    return best
