from __future__ import annotations

from memories.admin import batches, index_jobs, periods, persona_filter, personas, records, same_words, tombstones  # noqa: F401
