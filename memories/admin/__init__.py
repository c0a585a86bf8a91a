"""The admin's lists. Django imports this package; what it imports registers itself."""

from __future__ import annotations

from memories.admin import others, records  # noqa: F401
