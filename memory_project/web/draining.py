"""A flag that this process is about to stop: it then reports itself as not ready, and gets no new requests."""

from __future__ import annotations

import threading

_draining = threading.Event()


def start() -> None:
    """Report this process as not ready from now on. It goes on answering the requests that still arrive."""
    _draining.set()


def is_draining() -> bool:
    return _draining.is_set()


def reset() -> None:
    """Report this process as ready again, for tests."""
    _draining.clear()
