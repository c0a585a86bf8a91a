"""Registries of what apps contribute, so that the apps below them can use it.

Contributions import most of an app. So an app defers them in `AppConfig.ready`, and the first look into a registry
carries them out: a server over stdio starts without them, and lists its tools at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar

Provider = TypeVar("Provider")

_deferred: list[Callable[[], None]] = []
_is_loaded = threading.Event()
_loading = threading.Lock()
_loader: int | None = None  # the thread that loads, which may look into registries meanwhile


def defer(contribute: Callable[[], None]) -> None:
    """Call `contribute` before the first look into any registry. The order of calls is kept."""
    _deferred.append(contribute)
    _is_loaded.clear()


def load() -> None:
    """Carry out what was deferred. Other threads wait for it."""
    global _loader
    if _is_loaded.is_set() or _loader == threading.get_ident():
        return
    with _loading:
        _loader = threading.get_ident()
        try:
            while _deferred:
                _deferred[0]()
                del _deferred[0]
            _is_loaded.set()
        finally:
            _loader = None


class Registry(MutableMapping[str, Provider], Generic[Provider]):
    """Providers by name, in order of registration."""

    def __init__(self, point: str) -> None:
        self.point = point
        self._providers: dict[str, Provider] = {}

    def register(self, name: str, provider: Provider) -> None:
        self._providers[name] = provider

    def __getitem__(self, name: str) -> Provider:
        load()
        return self._providers[name]

    def __setitem__(self, name: str, provider: Provider) -> None:
        self._providers[name] = provider

    def __delitem__(self, name: str) -> None:
        del self._providers[name]

    def __iter__(self) -> Iterator[str]:
        load()
        return iter(dict(self._providers))

    def __len__(self) -> int:
        load()
        return len(self._providers)
