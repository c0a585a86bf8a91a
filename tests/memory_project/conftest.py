from __future__ import annotations

from tests.knowledge.conftest import cora, cora_user, curators, small_catalog

__all__ = ["cora", "cora_user", "curators", "small_catalog"]
