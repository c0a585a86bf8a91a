"""JSON lines: one object per line."""

from __future__ import annotations

import codecs
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

MAX_LINE = 4 << 20  # bytes


@dataclass(frozen=True)
class JsonLine:
    number: int
    value: dict[str, Any] = field(default_factory=dict)
    problem: str = ""

    @property
    def place(self) -> str:
        return f"line {self.number}"


def read_lines(file: BinaryIO) -> Iterator[JsonLine]:
    """Yield the object of each line except blank ones, or the reason why the line isn't an object."""
    number = 0
    while part := file.readline(MAX_LINE + 1):
        number += 1
        if number == 1:
            part = part.removeprefix(codecs.BOM_UTF8)
        if len(part) > MAX_LINE and not part.endswith(b"\n"):
            while part and not part.endswith(b"\n"):
                part = file.readline(MAX_LINE)
            yield JsonLine(number, problem=f"has more than {MAX_LINE:,} bytes")
        elif part.strip():
            yield _line(number, part)


def _line(number: int, part: bytes) -> JsonLine:
    try:
        value = json.loads(part.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return JsonLine(number, problem="is not encoded in UTF-8")
    except json.JSONDecodeError as error:
        end = "" if part.endswith(b"\n") else "; the file may have been cut"
        return JsonLine(number, problem=f"can't be read as JSON ({error.msg} at character {error.pos + 1}){end}")
    except RecursionError:
        return JsonLine(number, problem="has too many nested levels")
    except ValueError as error:
        return JsonLine(number, problem=str(error)[:200])
    return JsonLine(number, value) if isinstance(value, dict) else JsonLine(number, problem="is not an object")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"has the key {counts.most_common(1)[0][0][:40]!r} twice")
    return value


def _no_constant(text: str) -> Any:
    raise ValueError(f"has {text}, which is not JSON")
