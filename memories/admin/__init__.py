from __future__ import annotations

from memories.admin import others, records  # noqa: F401
