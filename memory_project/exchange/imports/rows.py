"""Rows that the reader of a format yields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class ImportedRow:
    """One item of an imported file. `data` is empty if `problem` says why the item can't be read.

    For the kind "memory", `data` has fields of the operation Remember and optionally `created_at`. Other kinds are
    those of the export format.
    """

    place: str  # for the report, for example "line 12" or "notes/orders.md"
    data: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    kind: str = "memory"
    key: str = ""  # names the item within its source, so that a later version of it is recognized


@dataclass(frozen=True)
class TakeOverOutcome:
    """What became of a row that was taken over."""

    outcome: Literal["kept", "duplicate", "conflicting", "refused"]
    reason: str = ""
    reference: str = ""  # the id of what was stored, for the undo of the import, or of what the row repeats
