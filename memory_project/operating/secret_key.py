"""The secret key, which signs sessions, links and confirmations."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path


def load_secret_key(file: Path) -> str:
    """Return the key in `file`. Creates the file at first use, readable by its owner only."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=file.parent)  # mode 0600
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(50))
        with contextlib.suppress(FileExistsError):  # another process has created it at the same time
            os.link(draft, file)
        os.unlink(draft)
    return file.read_text().strip()
