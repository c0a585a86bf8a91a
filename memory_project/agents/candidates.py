"""Candidates for suggestions: decisions, corrections and repaired statements in the transcript of an agent's session.

Rules alone, no language model. The program of the hooks runs this module where the transcript is, so it imports
neither Django nor anything that is not in the standard library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DECISION = "decision"
CORRECTION = "correction"
FAILED_STATEMENT = "failed_statement"
KINDS = (DECISION, CORRECTION, FAILED_STATEMENT)


@dataclass(frozen=True)
class Message:
    """A message of a transcript.

    `role` is "user" (what a person typed), "assistant" (what the agent said or, with `tool`, which tool it called) or
    "tool" (the result of a call). `tool_input` belongs to the call; a result may repeat it.
    """

    role: str
    text: str
    tool: str = ""
    tool_input: Mapping[str, Any] | str | None = None
    is_error: bool = False


@dataclass(frozen=True)
class Candidate:
    """Something worth remembering. `evidence` is the sentence or statement it was found in."""

    kind: str
    text: str
    evidence: str
    entities: tuple[str, ...] = ()


def find_candidates(messages: Sequence[Message]) -> list[Candidate]:
    """Return the candidates of a session, the first ones first."""
    return []
