"""Export of memories as Markdown notes: one file a memory, with front matter and links along correction chains.

The front matter is YAML whose values are written as JSON, which YAML contains.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import IO
from uuid import UUID

from memories.models import MemoryRecord
from memories.operations import MEMORY_FIELDS
from memories.portability import Values

FOLDER = "Commonplace"
CHUNK = 500
MAX_TITLE = 120  # bytes of a title in a file name; file systems allow 255 in all
# Characters that Windows, macOS or links in notes don't allow in names, and invisible ones.
UNSAFE = re.compile(r"[\\/:*?\"<>|#^\[\]%\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
FRONT_MATTER = (
    "id", "created_at", "updated_at", "created_by", "persona", "visibility", "dimension", "category", "confidence",
    "source", "summary", "language", "tags", "metadata", "status", "stale_reason",
    "stale_at", "last_verified_at", "superseded_at", "tier", "conversation_id", "role", "author", "importance",
    "expires_at", *MEMORY_FIELDS,
)  # fmt: skip
LINKS = {"supersedes_id": "supersedes", "superseded_by": "superseded_by"}


def write_markdown(rows: Iterator[Values], out: IO[bytes]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        memories = (row for row in rows if row["kind"] == "memory")
        while chunk := list(islice(memories, CHUNK)):
            names = _names_of_linked(chunk)
            for row in chunk:
                archive.writestr(f"{FOLDER}/{name_of(row['id'], row['content'])}.md", _note(row, names))


def name_of(memory_id: str, content: str) -> str:
    """Return the name of a memory's note. It contains a part of the id, so that it is unique."""
    first_line = content.strip().partition("\n")[0]
    title = " ".join(UNSAFE.sub(" ", unicodedata.normalize("NFC", first_line)).split()).strip(". ")
    title = title.encode()[:MAX_TITLE].decode(errors="ignore").strip(". ")
    return f"{title or 'Memory'} {memory_id[:12]}"


def _names_of_linked(rows: Sequence[Values]) -> Mapping[str, str]:
    """Return the names of the notes that these memories link to, by id, as far as the reader may see them."""
    ids = {UUID(row[key]) for row in rows for key in LINKS if row[key]}
    linked = MemoryRecord.objects.filter(pk__in=ids).values_list("pk", "content")
    return {pk.hex: name_of(pk.hex, content) for pk, content in linked}


def _note(row: Values, names: Mapping[str, str]) -> str:
    fields = {key: row[key] for key in FRONT_MATTER if row[key] not in (None, "", [], {})}
    if "tags" in fields:
        fields["tags"] = [_tag(tag) for tag in row["tags"]]
    links = {title: names.get(row[key]) for key, title in LINKS.items() if row[key]}
    fields |= {title: f"[[{name}]]" for title, name in links.items() if name}
    lines = ["---", *(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()), "---", ""]
    lines += [row["content"], ""]
    if links.get("supersedes"):
        lines += [f"Corrects [[{links['supersedes']}]]", ""]
    if links.get("superseded_by"):
        lines += [f"Corrected by [[{links['superseded_by']}]]", ""]
    return "\n".join(lines)


def _tag(tag: str) -> str:
    """Return a tag as notes allow it: letters, digits, hyphens, underscores and slashes, and not only digits."""
    text = re.sub(r"[^\w/-]+", "-", tag).strip("-") or "tag"
    return f"tag-{text}" if text.isdecimal() else text
