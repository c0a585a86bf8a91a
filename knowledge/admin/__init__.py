from __future__ import annotations

from knowledge.admin import catalog, changesets, insights  # noqa: F401
