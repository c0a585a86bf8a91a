"""The state of a web server that is about to stop: it still serves requests, but reports that it is not ready."""

from __future__ import annotations

import threading

_started = threading.Event()


def start() -> None:
    _started.set()


def is_draining() -> bool:
    return _started.is_set()
