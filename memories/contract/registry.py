"""Registries. Apps add entries in AppConfig.ready, so that the apps below them can use the entries."""

from __future__ import annotations

from typing import Generic, TypeVar

Provider = TypeVar("Provider")


class Registry(dict[str, Provider], Generic[Provider]):
    """Providers by name, in order of registration."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self.point = point

    def register(self, name: str, provider: Provider) -> None:
        self[name] = provider
