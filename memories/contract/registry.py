"""Where other apps plug in: one registry a point, several providers each, filled in AppConfig.ready."""

from __future__ import annotations

from typing import Generic, TypeVar

Provider = TypeVar("Provider")


class Registry(dict[str, Provider], Generic[Provider]):
    """Providers by name, in the order of their registration. docs/decisions.md lists the points."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self.point = point

    def register(self, name: str, provider: Provider) -> None:
        """Registering a name again replaces its provider."""
        self[name] = provider
