"""A person's settings of pages, such as the columns of a list.

The memories app stores none itself. A higher app registers a store when it is ready; without one, every page looks as
usual.
"""

from __future__ import annotations

from typing import Any, Protocol

from foundation.people.caller import Caller


class Store(Protocol):
    def load(self, caller: Caller, *, key: str) -> Any: ...
    def save(self, caller: Caller, *, key: str, value: Any) -> None: ...
    def remove(self, caller: Caller, *, key: str) -> None: ...


_store: Store | None = None


def use_store(store: Store) -> None:
    global _store
    _store = store


def load(caller: Caller, key: str) -> Any:
    """Return the caller's value, or None."""
    return _store.load(caller, key=key) if _store else None


def save(caller: Caller, key: str, value: Any) -> None:
    if _store:
        _store.save(caller, key=key, value=value)


def remove(caller: Caller, key: str) -> None:
    if _store:
        _store.remove(caller, key=key)
