"""The presence of any checks, remembered so that recall needs no query about them where there are none."""

from __future__ import annotations

import threading
import time

from analysis.models import MemoryCheck
from foundation.database.identity import service

RENEWED_S = 60.0  # for which an answer is kept that there are none
_guard = threading.Lock()
_found, _asked_until = False, 0.0


def any_exist() -> bool:
    """Return whether a memory has a check. A first check of another process is noticed within RENEWED_S."""
    global _found, _asked_until
    if not _found and time.monotonic() >= _asked_until:
        with service("checks"):
            found = MemoryCheck.objects.exists()
        with _guard:
            _found = found
            _asked_until = time.monotonic() + RENEWED_S
    return _found


def note_new() -> None:
    global _found
    _found = True


def reset(*, asked_until: float = 0.0) -> None:
    global _found, _asked_until
    _found = False
    _asked_until = asked_until
