"""The tools as they are advertised. Making their schemas takes a third of a second, and every stdio client is a process
of its own; so they are kept in the data folder until the code changes. Derived: the folder may be emptied."""

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

from memories.contract.tools import Tool
from memory_project import __version__

log = logging.getLogger(__name__)

LIBRARIES = ("django", "rest_framework", "drf_spectacular", "axes")  # installed apps that declare no tools


def offers(tools: Sequence[Tool]) -> list[OfferedTool]:
    """Each tool's name, texts, hints and schemas."""
    names = hashlib.sha256(" ".join(f"{type(tool).__name__} {tool.name}" for tool in tools).encode()).hexdigest()[:8]
    file = settings.COMMONPLACE_HOME / "offers" / f"{_fingerprint()}-{names}.json"
    try:
        return [OfferedTool.model_validate(entry) for entry in json.loads(file.read_text())]
    except (OSError, ValueError):
        entries = [offered(tool) for tool in tools]
        _keep(file, entries)
        return entries


def offered(tool: Tool) -> OfferedTool:
    """The tool as it is advertised."""
    if entry := getattr(tool, "advertised", None):  # word for word as another server has it
        return OfferedTool.model_validate(entry)
    return OfferedTool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
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
    """Return a hash that changes with any source file of an installed app, because each may change a schema."""
    folders = {config.path for config in apps.get_app_configs() if not config.name.startswith(LIBRARIES)}
    files = sorted(
        {f"{folder}/{file}" for folder in folders for file in glob("**/*.py", root_dir=folder, recursive=True)}
    )
    stats = [(file, os.stat(file)) for file in files]  # half of the time that pathlib takes
    parts = [__version__, *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in stats)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _keep(file: Path, entries: Sequence[OfferedTool]) -> None:
    """Whole or not at all; without room for it the next process makes them again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in file.parent.glob("*.json"):
            if not old.name.startswith(file.name.partition("-")[0]):  # of other code; other toolsets stay
                old.unlink(missing_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=file.parent, suffix=".draft")
        with os.fdopen(descriptor, "w") as handle:
            json.dump([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in entries], handle)
        os.replace(draft, file)
    except OSError as error:
        log.warning("the tools' schemas could not be kept: %s", error)
