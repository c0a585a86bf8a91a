"""Tables of the documentation, which tests compare with the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def table(document: str, heading: str) -> dict[str, list[str]]:
    """Return the rows of the first table whose heading line starts with `heading`, keyed by their first cell."""
    lines = (ROOT / document).read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(heading))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        rows[first] = rest
    return rows
