"""Creation and change of personas."""

from __future__ import annotations

from typing import Annotated

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext
from pydantic import Field

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound, check_choice
from foundation.operations.fields import Text
from foundation.operations.operation import Operation
from foundation.operations.toolsets import toolsets
from foundation.people.caller import Caller
from foundation.people.models import Persona

Patterns = Annotated[list[Annotated[str, Text(1, 100)]], Field(max_length=200)]
PerMinute = Annotated[int, Field(ge=1, le=1_000_000)]


class CreatePersona(Operation):
    """Create a persona"""

    name: Annotated[str, Text(1, 60)] = Field(
        description="Short and stable: lower-case letters, digits, - and _. It can't be changed later."
    )
    title: Annotated[str, Text(0, 120)] = Field("", description="The name shown to people.")
    description: Annotated[str, Text(0, 2_000)] = ""
    tools_allow: Patterns = Field(["*"], description="Tools that it may call, as patterns with *.")
    tools_deny: Patterns = Field([], description="Exceptions: a tool, or one command as memory_manage.erase.")
    toolsets: Patterns = Field([], description="Offered to agents that choose none.")
    memory_context: bool = Field(True, description="Whether memories come along with the answers of data tools.")
    calls_per_minute: PerMinute | None = Field(None, description="For each person; no limit if not given.")
    writes_per_day: PerMinute | None = Field(None, description="For each person; no limit if not given.")


class ChangePersona(CreatePersona):
    """Replace the settings of a persona"""


def create(caller: Caller, operation: CreatePersona) -> Persona:
    _check(caller, operation)
    if Persona.objects.filter(name=operation.name).exists():
        raise Conflict(gettext("is already the name of a persona"), field="name")
    return _saved(Persona(**operation.values()))


def change(caller: Caller, operation: ChangePersona) -> Persona:
    _check(caller, operation)
    with transaction.atomic():
        persona = Persona.objects.select_for_update().filter(name=operation.name).first()
        if persona is None:
            raise NotFound(gettext("there is no such persona"), field="name")
        for name, value in operation.values().items():
            setattr(persona, name, value)
        return _saved(persona)


def _check(caller: Caller, operation: CreatePersona) -> None:
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can manage personas"))
    for name in operation.toolsets:
        check_choice("toolsets", name, [*toolsets(), "all"])


def _saved(persona: Persona) -> Persona:
    try:
        persona.full_clean(validate_unique=False)
    except ValidationError as error:
        field, messages = next(iter(error.message_dict.items()))
        raise Invalid(messages[0], field=field) from None
    persona.save()
    return persona
