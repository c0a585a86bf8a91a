"""Loading of metadata files, after which memories about changed entities are compared with the new state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from knowledge.catalog import metadata_files
from knowledge.catalog.metadata_files import Loaded
from knowledge.freshness.stale_detection import check_entities


def load(records: Iterable[Any], *, known_only: bool = False) -> Iterator[Loaded]:
    """Write records into the embedded catalog, yielding the running counts after each chunk, and the final ones."""
    count = Loaded()
    for count in metadata_files.write(records, known_only=known_only):
        yield count
    count.stale = check_entities(count.urns).stale
    yield count
