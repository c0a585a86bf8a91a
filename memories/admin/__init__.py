from __future__ import annotations

from memories.admin import (  # noqa: F401
    batches,
    index_jobs,
    jobs,
    periods,
    persona_filter,
    personas,
    purposes,
    records,
    same_words,
    tombstones,
)
