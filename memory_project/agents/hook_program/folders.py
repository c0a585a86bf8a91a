"""Folders of the hook program: the person's configuration, and its state.

Nothing below this package's hook path imports Django or anything outside the standard library: a hook starts for each
prompt, on machines that have no server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

NAME = "commonplace"


def config_folder() -> Path | None:
    """Return the folder of the saved connection, or None if the person has no home folder."""
    return _folder("APPDATA", "XDG_CONFIG_HOME", ".config")


def state_folder() -> Path | None:
    """Return the folder of the circuit and of the last events, or None if the person has no home folder."""
    return _folder("LOCALAPPDATA", "XDG_STATE_HOME", ".local/state")


def home() -> Path | None:
    """Return the home folder. An empty HOME is none: the root of the file system would take its place."""
    if os.environ.get("HOME") == "" and sys.platform != "win32":
        return None
    try:
        return Path.home()
    except RuntimeError:
        return None


def _folder(windows: str, variable: str, default: str) -> Path | None:
    named = os.environ.get(windows if sys.platform == "win32" else variable, "")
    if named and Path(named).is_absolute():
        return Path(named) / NAME
    person = home()
    return person / default / NAME if person else None
