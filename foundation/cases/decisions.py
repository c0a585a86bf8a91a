"""Decisions about cases, and their undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NotRequired

from django.db import transaction
from django.utils.translation import gettext, ngettext
from pydantic import Field, with_config
from typing_extensions import TypedDict

from foundation.cases.kinds import CaseVerdict, Decided, kind_named
from foundation.operations.errors import DomainError, Forbidden, Invalid
from foundation.operations.fields import FORBID, Text
from foundation.operations.operation import Operation
from foundation.people.caller import Caller

MAX_CASES = 50  # cases that one call decides about
MAX_VALUE = 4_000  # characters of a value of a verdict

CaseId = Annotated[str, Text(1, 40)]
UndoToken = Annotated[str, Text(1, 700)]


@with_config(FORBID)
class ChosenCase(TypedDict):
    """A case, and the token of its state as it was seen."""

    id: CaseId
    seen: NotRequired[Annotated[str, Text(0, 200)]]


class DecideCases(Operation):
    """Decide about cases of one kind"""

    kind: Annotated[str, Text(1, 40)] = Field(description="The kind of the cases.")
    verdict: Annotated[str, Text(1, 40)] = Field(description="One of the verdicts that the cases list.")
    cases: Annotated[list[ChosenCase], Field(min_length=1, max_length=MAX_CASES)] = Field(
        description="The cases: one, or several for a verdict that takes many."
    )
    given: dict[Annotated[str, Text(1, 40)], Annotated[str, Text(0, MAX_VALUE)]] = Field(
        {}, description="What the verdict takes, such as content, note or visibility."
    )


class UndoVerdicts(Operation):
    """Undo verdicts on cases of one kind"""

    kind: Annotated[str, Text(1, 40)] = Field(description="The kind of the cases.")
    undo: Annotated[list[UndoToken], Field(min_length=1, max_length=MAX_CASES)] = Field(
        description="The verdicts, by the values of `undo` in the answer to deciding."
    )


@dataclass(frozen=True)
class CaseOutcome:
    """The result of one decide call."""

    verdict: CaseVerdict
    decided: Mapping[str, Decided] = field(default_factory=dict)  # by the id of the case
    refused: Mapping[str, DomainError] = field(default_factory=dict)

    @property
    def message(self) -> str:
        if len(self.decided) == 1:
            return next(iter(self.decided.values())).message
        text = ngettext("%(verdict)s: %(count)s case.", "%(verdict)s: %(count)s cases.", len(self.decided))
        return text % {"verdict": self.verdict.label, "count": len(self.decided)}

    @property
    def undo_tokens(self) -> list[str]:
        return [decided.undo_token for decided in self.decided.values() if decided.undo_token]


def decide(caller: Caller, operation: DecideCases) -> CaseOutcome:
    """Give a verdict on each of the cases, each in a transaction of its own.

    A case that is refused doesn't keep the others from being decided. Raises the error of the first case if all are
    refused. Raises Invalid if the kind, the verdict or a value is unknown, if a case is named twice, or if the verdict
    takes one case only.
    """
    kind = kind_named(caller, operation.kind)
    verdict = kind.verdict(operation.verdict)
    if len(operation.cases) > 1 and not verdict.takes_many:
        raise Invalid(
            gettext("has several cases"),
            field="cases",
            allowed=gettext("one case for the verdict %(verdict)s") % {"verdict": verdict.name},
        )
    if len({case["id"] for case in operation.cases}) < len(operation.cases):
        raise Invalid(gettext("names a case twice"), field="cases", allowed=gettext("each case once"))
    if unknown := [name for name in operation.given if name not in verdict.fields]:
        allowed = ", ".join(verdict.fields) or gettext("no values")
        raise Invalid(gettext("is unknown"), field=f"given.{unknown[0]}", allowed=allowed)
    decided: dict[str, Decided] = {}
    refused: dict[str, DomainError] = {}
    for case in operation.cases:
        try:
            decided[case["id"]] = verdict.give(caller, case["id"], case.get("seen", ""), operation.given)
        except DomainError as error:
            refused[case["id"]] = error
    if not decided:
        raise next(iter(refused.values()))
    return CaseOutcome(verdict, decided, refused)


def require_tool(caller: Caller, tool: str, command: str) -> None:
    """Raises Forbidden if the caller's connection may not use the tool that does what a verdict does."""
    if tool and not caller.may_use(tool, command):
        raise Forbidden(
            gettext("the persona %(persona)r may not use %(tool)s")
            % {"persona": caller.persona, "tool": f"{tool} {command}".strip()}
        )


def undo(caller: Caller, operation: UndoVerdicts) -> None:
    """Undo verdicts, in one transaction: all of them, or none if one can't be undone."""
    kind = kind_named(caller, operation.kind)
    with transaction.atomic():
        for undo_token in operation.undo:
            kind.undo(caller, undo_token)
