from __future__ import annotations

from memories.admin import batches, index_jobs, persona_filter, personas, records, same_words, tombstones  # noqa: F401
