"""Saved views: lists under filters that a person gave a name."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from django.db import IntegrityError, transaction

from memories.contract.errors import Conflict
from memories.contract.fields import Text
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memory_project.models import SavedView, User

MOST = 12  # views of one person
PASSING = ("after", "page", "as_of")  # where one was in the list, which is no part of a view


def save(*, caller: Caller, name: str, page: str, query: str) -> SavedView:
    """Keeps the filters of a list under a name. Raises Conflict for a name that is taken, or one view too many."""
    name = validate(Annotated[str, Text(1, 60)], name, "name")
    person = User.objects.get(email=caller.email)
    pairs = [(key, value) for key, value in parse_qsl(query) if key not in PASSING]
    if person.saved_views.count() >= MOST:
        raise Conflict(f"would be one more than {MOST}: remove a view first", field="name")
    try:
        with transaction.atomic():
            return SavedView.objects.create(person=person, name=name, page=page, query=urlencode(pairs)[:2000])
    except IntegrityError:
        raise Conflict("is the name of another view of yours", field="name") from None


def remove(*, caller: Caller, view_id: int) -> bool:
    """Removes one's own view; whether there was one."""
    return bool(SavedView.objects.filter(pk=view_id, person__email=caller.email).delete()[0])
