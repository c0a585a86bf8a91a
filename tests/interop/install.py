"""Install the clients of clients.toml: `python -m tests.interop.install [NAME …]`, by default all of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.interop import registry

UV = Path(sys.executable).parent / "uv"


def install(client: registry.ForeignClient) -> None:
    client.folder.mkdir(parents=True, exist_ok=True)
    if client.requirements:
        python = client.folder / "bin" / "python"
        run([str(UV), "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(client.folder)])
        run([str(UV), "pip", "install", "--quiet", "--python", str(python), *client.requirements])
    if client.npm:
        options = ["--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(registry.NODE)]
        run(["npm", "install", *options, *client.npm])
    (client.folder / "installed").write_text(client.wanted)


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def main() -> None:
    """A client that can't be installed is named, and the tests skip it."""
    clients = registry.load()
    for name in sys.argv[1:] or clients:
        client = clients[name]
        started = time.perf_counter()
        if client.is_installed:
            continue
        try:
            if client.npm and shutil.which("npm") is None:
                raise FileNotFoundError("npm is missing")
            install(client)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"NOT INSTALLED: {name}: {error}", flush=True)
        else:
            print(f"{name}: installed in {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    main()
