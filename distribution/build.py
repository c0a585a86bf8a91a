"""Write server.json and the .mcpb bundle. `make dist` runs this after building wheel and sdist."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from memory_project import __version__
from memory_project.agents.client_files.connection import DEFAULT_NAME, DESCRIPTION, TOKEN_VARIABLE

LAUNCHER = Path(__file__).parent / "launcher.js"
ENTRY_POINT = "server/index.js"
ADDRESS_VARIABLE = "COMMONPLACE_ADDRESS"
DEFAULT_ADDRESS = "http://localhost:8000/mcp"
SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
REPOSITORY = re.compile(r"https://github\.com/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)")
EPOCH = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes, and so the same checksum
ADDRESS = {
    "title": "Address",
    "description": "The address of your Commonplace, ending with /mcp. The Connect page shows it.",
}
TOKEN = {
    "title": "Token",
    "description": "A token of the Connect page. Leave it empty to sign in with your browser instead.",
}


def manifest() -> dict[str, Any]:
    """Return the manifest of the bundle: a launcher that connects the host with an address."""
    environment = {ADDRESS_VARIABLE: "${user_config.address}", TOKEN_VARIABLE: "${user_config.token}"}
    return {
        "manifest_version": "0.3",
        "name": DEFAULT_NAME,
        "display_name": "Commonplace",
        "version": __version__,
        "description": DESCRIPTION,
        "author": {"name": "Commonplace"},
        "license": "MIT",
        "server": {
            "type": "node",
            "entry_point": ENTRY_POINT,
            "mcp_config": {"command": "node", "args": [f"${{__dirname}}/{ENTRY_POINT}"], "env": environment},
        },
        "tools_generated": True,
        "prompts_generated": True,
        "user_config": {
            "address": {"type": "string", **ADDRESS, "required": True, "default": DEFAULT_ADDRESS},
            "token": {"type": "string", **TOKEN, "required": False, "sensitive": True, "default": ""},
        },
    }


def write_bundle(path: Path) -> None:
    files = {"manifest.json": json.dumps(manifest(), indent=2) + "\n", ENTRY_POINT: LAUNCHER.read_text()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name, EPOCH), text)


def registry_entry(repository: str, checksum: str) -> dict[str, Any]:
    """Return server.json for a release in `repository`, whose owner names the entry. Raises ValueError if unusable."""
    found = REPOSITORY.fullmatch(repository.rstrip("/"))
    if found is None:
        raise ValueError(f"REPOSITORY={repository!r} is not a repository; allowed: https://github.com/OWNER/NAME")
    owner, url = found[1], found[0]
    return {
        "$schema": SCHEMA,
        "name": f"io.github.{owner}/{DEFAULT_NAME}",
        "title": "Commonplace",
        "description": DESCRIPTION,
        "version": __version__,
        "repository": {"url": url, "source": "github"},
        "packages": [
            {
                "registryType": "mcpb",
                "identifier": f"{url}/releases/download/v{__version__}/{bundle_name()}",
                "version": __version__,
                "fileSha256": checksum,
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    {"name": ADDRESS_VARIABLE, "description": ADDRESS["description"], "isRequired": True},
                    {"name": TOKEN_VARIABLE, "description": TOKEN["description"], "isSecret": True},
                ],
            }
        ],
    }


def bundle_name() -> str:
    return f"{DEFAULT_NAME}-{__version__}.mcpb"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("repository", help="where the release is published: https://github.com/OWNER/NAME")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    bundle = options.folder / bundle_name()
    write_bundle(bundle)
    checksum = hashlib.sha256(bundle.read_bytes()).hexdigest()
    try:
        entry = registry_entry(options.repository, checksum)
    except ValueError as error:
        parser.error(str(error))
    (options.folder / "server.json").write_text(json.dumps(entry, indent=2) + "\n")


if __name__ == "__main__":
    main()
