"""Operations on the checks of memories."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from analysis.models import Expectation
from foundation.operations.fields import Id, OneOf, Text
from foundation.operations.operation import Operation
from memories.operations import MemoryId

SourceName = Annotated[str, Text(0, 60)]
Statement = Annotated[str, Text(0, 20_000)]
CallName = Annotated[str, Text(0, 80)]
ExpectationName = Annotated[str, OneOf(Expectation.values)]
Scalar = str | int | float | bool
CheckId = Annotated[Id, Field(description="Id of the check.")]
SOURCE = "Warehouse of query_sql, if there are several."
SQL = "One statement that reads."
CALL = "Instead of sql: last, or the id of an earlier query_sql call of yours."
EXPECTS = "What the statement returns if the memory is true."
VALUE = "For equals and at_least."
LOW = "For between."


class TryCheck(Operation):
    """Run a statement and compare its result with an expectation, without storing anything"""

    source: SourceName = Field("", description=SOURCE)
    sql: Statement = Field("", description=SQL)
    call: CallName = Field("", description=CALL)
    expects: ExpectationName = Field(description=EXPECTS)
    value: Scalar | None = Field(None, description=VALUE)
    low: Scalar | None = Field(None, description=LOW)
    high: Scalar | None = Field(None, description=LOW)


class AddCheck(TryCheck):
    """Add a check to a memory"""

    record_id: MemoryId


class EditCheck(Operation):
    """Change a check of a memory. What is not given stays as it is."""

    record_id: MemoryId
    check_id: CheckId
    source: SourceName | None = Field(None, description=SOURCE)
    sql: Statement | None = Field(None, description=SQL)
    call: CallName | None = Field(None, description=CALL)
    expects: ExpectationName | None = Field(None, description=EXPECTS)
    value: Scalar | None = Field(None, description=VALUE)
    low: Scalar | None = Field(None, description=LOW)
    high: Scalar | None = Field(None, description=LOW)


class ListChecks(Operation):
    """List the checks of a memory"""

    record_id: MemoryId


class OneCheck(Operation):
    """Show a check of a memory with its last results"""

    record_id: MemoryId
    check_id: CheckId


class RemoveCheck(OneCheck):
    """Remove a check from a memory"""


class RunCheck(OneCheck):
    """Run a check of a memory now"""
