"""Decisions about cases, and their undo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, NotRequired

from django.db import transaction
from django.utils.translation import gettext, ngettext
from pydantic import Field, with_config
from typing_extensions import TypedDict

from foundation.cases.kinds import CaseVerdict, Given, kind_named
from foundation.operations.errors import DomainError, Invalid
from foundation.operations.fields import FORBID, Text
from foundation.operations.operation import Operation
from foundation.people.caller import Caller

MAX_CASES = 50  # cases that one call decides about
MAX_VALUE = 4_000  # characters of a value of a verdict

CaseId = Annotated[str, Text(1, 40)]
NamedVerdict = Annotated[str, Text(1, 200)]


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
    verdicts: Annotated[list[NamedVerdict], Field(min_length=1, max_length=MAX_CASES)] = Field(
        description="The verdicts, as the answer to deciding names them."
    )


@dataclass(frozen=True)
class CaseOutcome:
    """What became of the cases of one call."""

    verdict: CaseVerdict
    given: Mapping[str, Given] = field(default_factory=dict)  # by the id of the case
    refused: Mapping[str, DomainError] = field(default_factory=dict)

    @property
    def message(self) -> str:
        if len(self.given) == 1:
            return next(iter(self.given.values())).message
        text = ngettext("%(verdict)s: %(count)s case.", "%(verdict)s: %(count)s cases.", len(self.given))
        return text % {"verdict": self.verdict.label, "count": len(self.given)}

    @property
    def undo(self) -> list[str]:
        return [given.undo for given in self.given.values() if given.undo]


def decide(caller: Caller, operation: DecideCases) -> CaseOutcome:
    """Give a verdict on each of the cases, each in a transaction of its own.

    A case that is refused doesn't keep the others from being decided. Raises the error of the first case if all are
    refused, Invalid if the kind, the verdict or a value is unknown, or if the verdict takes one case only.
    """
    kind = kind_named(caller, operation.kind)
    verdict = kind.verdict(operation.verdict)
    if len(operation.cases) > 1 and not verdict.takes_many:
        raise Invalid(
            gettext("has several cases"),
            field="cases",
            allowed=gettext("one case for the verdict %(verdict)s") % {"verdict": verdict.name},
        )
    if unknown := [name for name in operation.given if name not in verdict.fields]:
        allowed = ", ".join(verdict.fields) or gettext("no values")
        raise Invalid(gettext("is unknown"), field=f"given.{unknown[0]}", allowed=allowed)
    given: dict[str, Given] = {}
    refused: dict[str, DomainError] = {}
    for case in operation.cases:
        values = {**operation.given, "seen": case.get("seen", "")}
        try:
            given[case["id"]] = verdict.give(caller, case["id"], values)
        except DomainError as error:
            refused[case["id"]] = error
    if not given:
        raise next(iter(refused.values()))
    return CaseOutcome(verdict, given, refused)


def undo(caller: Caller, operation: UndoVerdicts) -> None:
    """Undo verdicts, in one transaction: all of them, or none if one can't be undone."""
    kind = kind_named(caller, operation.kind)
    with transaction.atomic():
        for given in operation.verdicts:
            kind.undo(caller, given)
