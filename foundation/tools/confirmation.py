"""Questions to a person before a call that deletes or changes much.

A tool declares them in `Tool.confirms`. Channels that reach the person ask. Elsewhere the caller passes `confirm`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from foundation.operations.display import show_invisible
from foundation.operations.errors import DomainError

QUOTED_CHARS = 160


@dataclass(frozen=True)
class ConfirmationQuestion:
    """Question to a person. `plan` is JSON data that differs if the person would agree to something else."""

    message: str
    plan: Any
    confirm: Any = True  # value of the argument `confirm` if the person agrees

    @property
    def digest(self) -> str:
        text = json.dumps(self.plan, sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Declined(DomainError):
    """The person did not agree. Nothing was done."""

    code = "declined"
    status = 409


def quoted(text: str) -> str:
    """Return a short JSON string of a text by others, so that the text can't imitate the question around it."""
    shown = show_invisible(text)
    shortened = shown if len(shown) <= QUOTED_CHARS else f"{shown[: QUOTED_CHARS - 1]}…"
    return json.dumps(shortened, ensure_ascii=False)
