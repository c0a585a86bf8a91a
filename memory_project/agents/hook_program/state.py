"""State of the hook program: small JSON files that are replaced whole, so that two hooks at once can't damage them.

`last_event` and `last_injection` are what `commonplace hook --status` shows. `circuit` makes hooks skip a server that
has just failed. No file holds a text of a prompt or of a memory.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from memory_project.agents.hook_program.folders import state_folder

LAST_EVENT = "last_event"
LAST_INJECTION = "last_injection"
CIRCUIT = "circuit"
MAX_BYTES = 64_000
SKIP_S = 60
MAX_WRITERS = 16
# The thread that asks and the one that gives up at the deadline may record the same failure at once, in the same file.
_writing = Lock()


def read(name: str) -> dict[str, Any]:
    """Return the content of a state file, or {} if there is none that can be read."""
    path = _path(name)
    try:
        with path.open("rb") if path else open(os.devnull, "rb") as file:
            value = json.loads(file.read(MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write(name: str, **values: Any) -> None:
    """Replace a state file, readable by its owner alone. A full disk or a read-only home leaves it as it was."""
    path = _path(name)
    text = json.dumps({"at": datetime.now(UTC).isoformat(timespec="seconds"), **values})
    if path is None or len(text) > MAX_BYTES:
        return
    # a process that ends while it writes leaves this file; the number of names is bounded
    temporary = path.with_name(f".{name}.{os.getpid() % MAX_WRITERS}")
    with _writing:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def open_circuit(url: str, reason: str) -> None:
    """Make hooks skip this server for SKIP_S seconds."""
    write(CIRCUIT, url=url, reason=reason[:200], until=time.time() + SKIP_S)


def skipped_for(url: str) -> float:
    """Return the seconds for which hooks still skip this server, 0 if they ask it."""
    circuit = read(CIRCUIT)
    until = circuit.get("until")
    if circuit.get("url") != url or not isinstance(until, int | float):
        return 0
    left = until - time.time()
    # a clock that was set back must not keep the circuit open
    return left if 0 < left <= SKIP_S else 0


def _path(name: str) -> Path | None:
    folder = state_folder()
    return folder / f"{name}.json" if folder else None
