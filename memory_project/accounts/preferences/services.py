"""Preferences of a person, by key. The caller reads and changes only their own."""

from __future__ import annotations

import json
from typing import Annotated, Any

from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memory_project.accounts.preferences.models import Preference
from memory_project.models import User

MAX_VALUE = 4_000  # maximum number of characters of a value as JSON


def load(caller: Caller, *, key: str) -> Any:
    """Return the caller's value, or None."""
    return Preference.objects.filter(person__email=caller.email, key=key).values_list("value", flat=True).first()


def save(caller: Caller, *, key: str, value: Any) -> None:
    key = validate(Annotated[str, Text(1, 100)], key, "key")
    if len(json.dumps(value)) > MAX_VALUE:
        raise Invalid(
            gettext("is too long"),
            field="value",
            allowed=gettext("at most %(max_value)s characters as JSON") % {"max_value": f"{MAX_VALUE:,}"},
        )
    person = User.objects.get(email=caller.email)
    Preference.objects.update_or_create(person=person, key=key, defaults={"value": value})


def remove(caller: Caller, *, key: str) -> None:
    Preference.objects.filter(person__email=caller.email, key=key).delete()
