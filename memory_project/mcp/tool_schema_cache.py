"""Cache of the tool definitions that MCP clients get.

Generating the schemas of all tools takes a third of a second, and each stdio client runs its own process. The schemas
are therefore cached in COMMONPLACE_HOME/offers until the code changes. The folder may be emptied at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from django.apps import apps
from django.conf import settings
from mcp.types import Tool as OfferedTool
from mcp.types import ToolAnnotations

import foundation
from foundation.tools.declaration import Tool
from memory_project import __version__

log = logging.getLogger(__name__)

LIBRARIES = ("django", "rest_framework", "drf_spectacular", "axes")  # installed apps that declare no tools


def advertised_tools(tools: Sequence[Tool]) -> list[OfferedTool]:
    names = hashlib.sha256(" ".join(f"{type(tool).__name__} {tool.name}" for tool in tools).encode()).hexdigest()[:8]
    file = settings.COMMONPLACE_HOME / "offers" / f"{_fingerprint()}-{names}.json"
    try:
        return [OfferedTool.model_validate(entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError):
        entries = [advertise(tool) for tool in tools]
        _save(file, entries)
        return entries


def advertise(tool: Tool) -> OfferedTool:
    if entry := getattr(tool, "advertised", None):  # copied verbatim from another server
        return OfferedTool.model_validate(entry)
    return OfferedTool(
        name=tool.name,
        title=tool.title,
        description=tool.listed_description,
        input_schema=tool.listed_schema,
        output_schema=tool.output_schema,
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.hints.read_only,
            destructive_hint=tool.hints.destructive,
            idempotent_hint=tool.hints.idempotent,
            open_world_hint=tool.hints.open_world,
        ),
    )


def _fingerprint() -> str:
    """Return a hash that changes with any source file of ours, because any of them may change a schema."""
    folders = {config.path for config in apps.get_app_configs() if not config.name.startswith(LIBRARIES)}
    folders.add(os.path.dirname(foundation.__file__))
    files = sorted(
        {f"{folder}/{file}" for folder in folders for file in glob("**/*.py", root_dir=folder, recursive=True)}
    )
    stats = [(file, os.stat(file)) for file in files]  # os.stat() takes half as long as pathlib
    parts = [__version__, *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in stats)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _save(file: Path, entries: Sequence[OfferedTool]) -> None:
    """Write the cache file atomically. A failure is logged and never raised: the next process tries again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in file.parent.glob("*.json"):
            # remove files of other versions of the code, but keep those of other selections of tools
            if not old.name.startswith(file.name.partition("-")[0]):
                old.unlink(missing_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=file.parent, suffix=".draft")
        with os.fdopen(descriptor, "w") as handle:
            json.dump([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in entries], handle)
        os.replace(draft, file)
    except OSError as error:
        log.warning("could not cache the schemas of the tools: %s", error)
