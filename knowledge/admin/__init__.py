"""The admin's lists. Django imports this package; what it imports registers itself."""

from __future__ import annotations

from knowledge.admin import catalog, changesets, insights  # noqa: F401
