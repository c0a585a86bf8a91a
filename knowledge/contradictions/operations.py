"""Operations on contradictions."""

from __future__ import annotations

from typing import Annotated, Self

from django.utils.translation import gettext
from pydantic import Field, model_validator

from foundation.operations.fields import Id, OneOf, Text, validation_error
from foundation.operations.operation import Operation
from knowledge.models import PairVerdict
from memories.operations import Scope

ContradictionId = Annotated[Id, Field(description="Id of the contradiction.")]
SettlementId = Annotated[Id, Field(description="Id of the verdict.")]
MAX_NOTE = 500  # characters, as of a report to the owner of a memory


class ShowContradiction(Operation):
    """Show a contradiction"""

    contradiction_id: ContradictionId


class GiveVerdict(Operation):
    """Give a verdict on two texts that contradict each other"""

    contradiction_id: ContradictionId
    verdict: Annotated[str, OneOf(PairVerdict.values)] = Field(description="Which of the two texts holds.")
    first_scope: Scope = Field("", description="For both: the scope in which the first text is true.")
    second_scope: Scope = Field("", description="For both: the scope in which the second text is true.")
    note: Annotated[str, Text(0, MAX_NOTE)] = Field("", description="Why, for the owners of the memories.")

    @model_validator(mode="after")
    def _names_scopes(self) -> Self:
        if self.verdict != PairVerdict.BOTH and (self.first_scope or self.second_scope):
            field = "first_scope" if self.first_scope else "second_scope"
            raise validation_error(
                gettext("is only for the verdict both"), gettext("no scope, or the verdict both"), field=field
            )
        if self.verdict == PairVerdict.BOTH and not self.first_scope:
            raise validation_error(
                gettext("is missing"), gettext("where the first text holds, such as persona:NAME"), field="first_scope"
            )
        return self


class UndoSettlement(Operation):
    """Undo a verdict of yours"""

    settlement_id: SettlementId
