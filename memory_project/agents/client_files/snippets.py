"""An entry as text to paste, in the format of the client's file."""

from __future__ import annotations

from typing import Any

from memory_project.agents.client_files import json_text, toml_text, yaml_text
from memory_project.agents.client_files.connection import ClientConnection
from memory_project.agents.client_files.table import Client


def snippet(client: Client, connection: ClientConnection) -> str:
    """Return a whole file that holds nothing but the entry."""
    module: Any = {"toml": toml_text, "yaml": yaml_text}.get(client.format, json_text)
    text: str = module.put("", (*client.container, connection.name), client.entry(connection))
    return text.rstrip() + "\n"
