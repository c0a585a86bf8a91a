"""The formats that can be imported. Each module of this package reads one family of formats.

A reader holds one item in memory at a time, whatever the size of the file. It never raises for a faulty item, but
yields a Row with a `problem`; it raises Invalid only if the whole file is of no use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from django.utils.translation import gettext_noop

from memory_project.exchange.imports.formats import (
    anthropic_memory,
    basic_memory,
    chatgpt,
    claude,
    comma_separated,
    commonplace,
    markdown,
    mcp_memory_service,
    mem0,
)
from memory_project.exchange.imports.rows import ImportedRow


@dataclass(frozen=True)
class Format:
    name: str  # as on the command line, for example "mem0"
    title: str  # as on pages
    extensions: tuple[str, ...]
    read: Callable[[BinaryIO, str], Iterator[ImportedRow]]  # takes the file and its name
    recognizes: Callable[[bytes, str], bool]  # takes the first 64 KB and the name of the file


FORMATS: dict[str, Format] = {
    "commonplace": Format(
        "commonplace",
        gettext_noop("Export of Commonplace"),
        (".jsonl", ".zip"),
        commonplace.read,
        commonplace.recognizes,
    ),
    "csv": Format(
        "csv",
        gettext_noop("CSV or TSV"),
        (".csv", ".tsv", ".tab", ".txt"),
        comma_separated.read,
        comma_separated.recognizes,
    ),
    "markdown": Format("markdown", "Markdown", (".md", ".markdown", ".zip"), markdown.read, markdown.recognizes),
    "basic-memory": Format("basic-memory", "basic-memory", (".zip", ".md"), basic_memory.read, basic_memory.recognizes),
    "mcp-memory": Format(
        "mcp-memory",
        gettext_noop("MCP memory server"),
        (".jsonl", ".json"),
        anthropic_memory.read,
        anthropic_memory.recognizes,
    ),
    "mcp-memory-service": Format(
        "mcp-memory-service",
        "mcp-memory-service",
        (".json", ".jsonl"),
        mcp_memory_service.read,
        mcp_memory_service.recognizes,
    ),
    "mem0": Format("mem0", "mem0", (".json", ".jsonl"), mem0.read, mem0.recognizes),
    "chatgpt": Format("chatgpt", gettext_noop("ChatGPT export"), (".zip", ".json"), chatgpt.read, chatgpt.recognizes),
    "claude": Format("claude", gettext_noop("Claude export"), (".zip", ".json"), claude.read, claude.recognizes),
}
