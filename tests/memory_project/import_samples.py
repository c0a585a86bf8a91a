"""A small, valid file of each import format, written for these tests."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.rows import ImportedRow


def zipped(files: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def lines(*objects: Any) -> bytes:
    return "".join(json.dumps(value) + "\n" for value in objects).encode()


def chatgpt_node(key: str, parent: str | None, children: list[str], **message: Any) -> dict[str, Any]:
    role, text = message.pop("role", "user"), message.pop("text", "")
    content = {"content_type": "text", "parts": [text]}
    value = {"id": key, "author": {"role": role}, "create_time": 1765671573.68, "content": content, "metadata": {}}
    return {"id": key, "message": value | message if text else None, "parent": parent, "children": children}


CHATGPT_CONVERSATION = {
    "title": "Freight report",
    "create_time": 1765671500.0,
    "mapping": {
        "root": chatgpt_node("root", None, ["a"]),
        "a": chatgpt_node("a", "root", ["b", "other"], text="Which orders count as freight?"),
        "other": chatgpt_node("other", "a", [], role="assistant", text="An answer that was regenerated."),
        "b": chatgpt_node("b", "a", ["c"], role="assistant", text="The team counts pallets only.", recipient="bio"),
        "c": chatgpt_node("c", "b", ["d"], role="tool", text="Model set context updated."),
        "d": chatgpt_node("d", "c", [], role="assistant", text="Orders with at least one pallet.", recipient="all"),
    },
    "current_node": "d",
    "conversation_id": "6995e870-eafc-83a6-ab22-d89ad9e2b447",
}
CLAUDE_CONVERSATION = {
    "uuid": "7be1fe65-9d2b-4a42-8b5f-6a9e1c1f0f11",
    "name": "Freight report",
    "summary": "",
    "created_at": "2026-03-01T10:00:00.123456Z",
    "updated_at": "2026-03-01T10:05:00.123456Z",
    "account": {"uuid": "0d3f"},
    "chat_messages": [
        {
            "uuid": "m1", "sender": "human", "text": "Which orders count?", "created_at": "2026-03-01T10:00:00Z",
            "content": [{"type": "text", "text": "Which orders count?"}], "attachments": [], "files": [],
        },
        {
            "uuid": "m2", "sender": "assistant", "text": "", "created_at": "2026-03-01T10:00:09Z",
            "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Those with a pallet."}],
        },
    ],
}  # fmt: skip
CLAUDE_PROJECT = {
    "uuid": "p1", "name": "Freight", "description": "", "prompt_template": "", "created_at": "2026-03-01T10:00:00Z",
    "docs": [
        {"uuid": "d1", "filename": "rules.md", "content": "Freight is by pallet.", "created_at": "2026-03-02T10:00:00Z"}
    ],
}  # fmt: skip
CLAUDE_MEMORY = {
    "conversations_memory": "**Work**\n\nThe user reports on freight.",
    "project_memories": {"p1": "Freight is counted by pallet."},
    "account_uuid": "0d3f",
}
ENTITY = {
    "type": "entity",
    "name": "Ana",
    "entityType": "person",
    "observations": ["prefers pallets", "Ana is 1 m tall"],
}
RELATION = {"type": "relation", "from": "Ana", "to": "Fernhill", "relationType": "works_at"}
MEM0_MEMORY = {
    "id": "4f1c5b9e-0000-4000-8000-000000000001", "memory": "Ana reports on freight", "hash": "0f", "metadata": None,
    "created_at": "2026-03-01T02:00:00-08:00", "updated_at": None, "user_id": "ana", "categories": ["work"],
}  # fmt: skip
MCP_MEMORY = {
    "content": "Freight is counted by pallet.", "content_hash": "ab12", "tags": ["freight", "rules"],
    "created_at": 1692633600.0, "updated_at": 1692633600.0, "memory_type": "note", "metadata": {"source": "laptop"},
}  # fmt: skip
BASIC_MEMORY_NOTE = """---
title: Coffee
type: note
permalink: drinks/coffee
tags: [drinks]
---

# Coffee

Notes on brewing.

## Observations
- [method] Pour over keeps the taste #brewing (compared in March)
- [ ] buy filters
- [00:12] not an observation

## Relations
- relates_to [[Tea]]
- "is better than" [[Instant coffee]] (for guests)
"""
CSV = 'content,tags,entities\n"Freight is counted, by pallet.\nNot by box.",freight;rules,fernhill.orders\n'
NOTE = "---\ntags: freight rules\nowner: Ana\n---\nFreight is counted by pallet.\n"

# Format → files of this format, as name and content
SAMPLES: dict[str, list[tuple[str, bytes]]] = {
    "csv": [
        ("a.csv", CSV.encode()),
        ("excel.csv", b"\xef\xbb\xbfcontent;tags;\r\nFreight is counted, by pallet.;freight;\r\n"),
        ("a.tsv", b"content\ttags\nFreight is counted by pallet.\tfreight\n"),
    ],
    "markdown": [
        ("note.md", NOTE.encode()),
        ("plain.md", b"content\n\nThe word above is no header of a CSV file."),
        ("vault.zip", zipped({".obsidian/app.json": "{}", "notes/freight.md": NOTE, "picture.png": b"\x89PNG"})),
        ("stored.zip", zipped({"freight.md": NOTE}, zipfile.ZIP_STORED)),
    ],
    "basic-memory": [
        ("coffee.md", BASIC_MEMORY_NOTE.encode()),
        ("main.zip", zipped({"plain.md": "A note without front matter.", "drinks/coffee.md": BASIC_MEMORY_NOTE})),
    ],
    "mcp-memory": [
        ("memory.jsonl", lines(ENTITY, RELATION)),
        ("relations.json", lines(RELATION, ENTITY)),
        ("graph.json", json.dumps({"entities": [ENTITY], "relations": [RELATION]}, indent=2).encode()),
    ],
    "mcp-memory-service": [
        ("export.json", json.dumps({"export_metadata": {"total_memories": 1}, "memories": [MCP_MEMORY]}).encode())
    ],
    "mem0": [
        ("get_all.json", json.dumps({"results": [MEM0_MEMORY]}).encode()),
        ("platform.json", json.dumps([MEM0_MEMORY]).encode()),
        ("page.json", json.dumps({"count": 1, "next": None, "previous": None, "results": [MEM0_MEMORY]}).encode()),
    ],
    "chatgpt": [
        ("conversations.json", json.dumps([CHATGPT_CONVERSATION]).encode()),
        (
            "export.zip",
            zipped(
                {
                    "user.json": "{}",
                    "conversations-000.json": json.dumps([CHATGPT_CONVERSATION]),
                    "chat.html": "<html>",
                    "file-1-notes.md": "A file that somebody had uploaded.",
                }
            ),
        ),
    ],
    "claude": [
        ("conversations.json", json.dumps([CLAUDE_CONVERSATION]).encode()),
        ("projects.json", json.dumps([CLAUDE_PROJECT]).encode()),
        ("memories.json", json.dumps([CLAUDE_MEMORY]).encode()),
        (
            "data.zip",
            zipped(
                {
                    "users.json": "[]",
                    "memories.json": json.dumps([CLAUDE_MEMORY]),
                    "projects/p1.json": json.dumps(CLAUDE_PROJECT),
                    "conversations.json": json.dumps([CLAUDE_CONVERSATION]),
                }
            ),
        ),
    ],
}


def rows(name: str, content: bytes, file: str = "") -> list[ImportedRow]:
    return list(FORMATS[name].read(io.BytesIO(content), file or f"sample{FORMATS[name].extensions[0]}"))


def contents(found: list[ImportedRow]) -> list[str]:
    return [row.data["content"] for row in found if not row.problem]
