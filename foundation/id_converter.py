"""URL converter for ids: 32 hexadecimal digits, as tools and the REST API return them, or a UUID with hyphens."""

from __future__ import annotations

from uuid import UUID

from django.urls import register_converter


class IdConverter:
    regex = "(?:[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"

    def to_python(self, value: str) -> UUID:
        return UUID(value)

    def to_url(self, value: UUID | str) -> str:
        return str(UUID(str(value)))


register_converter(IdConverter, "id")
