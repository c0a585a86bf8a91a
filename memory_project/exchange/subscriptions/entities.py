"""Catalog entities that a source names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foundation.operations.errors import Invalid
from foundation.operations.fields import MAX_URNS
from knowledge.catalog.name_resolution import urn_of
from knowledge.models import CatalogEntity

MAX_NOTE = 300  # characters


@dataclass(frozen=True)
class Table:
    """A table as dbt names it. Parts that are unknown are empty."""

    platform: str
    database: str
    schema: str
    name: str

    @property
    def qualified_name(self) -> str:
        return ".".join(filter(None, (self.database, self.schema, self.name)))


def urn_of_table(table: Table) -> tuple[str, str]:
    """Return the URN of the table and "", or "" and why there is none.

    If several platforms have a table of this name, the one on the table's own platform is meant.
    """
    name = table.qualified_name
    rows = CatalogEntity.objects.filter(removed=False, tail=table.name.lower().rpartition(".")[2])
    found = list(rows.values_list("urn", "platform", "qualified_name"))
    if not found:  # without the search for similar names, which takes long for thousands of tables
        return "", f"{name!r} is not in the catalog"[:MAX_NOTE]
    own = [
        urn
        for urn, platform, qualified_name in found
        if platform.lower() == table.platform.lower() and qualified_name.lower() == name.lower()
    ]
    return (own[0], "") if len(own) == 1 else _resolved(name)


def usable_urns(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the URNs of entities that a text names, and notes about the names that can't be resolved."""
    results = [_resolved(name) for name in names]
    urns = list(dict.fromkeys(urn for urn, _ in results if urn))
    notes = [note for _, note in results if note]
    if len(urns) > MAX_URNS:
        notes.append(f"only the first {MAX_URNS} entities are linked")
    return urns[:MAX_URNS], notes


def _resolved(name: str) -> tuple[str, str]:
    try:
        return urn_of(name), ""
    except Invalid as error:
        return "", error.fault[:MAX_NOTE]
