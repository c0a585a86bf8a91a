"""Saved views: filtered lists that a person has named."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qsl, urlencode

from django.contrib.admin import site
from django.db import IntegrityError, transaction
from django.utils.translation import gettext, gettext_noop

from foundation.operations.errors import Conflict, NotFound, check_choice
from foundation.operations.fields import Text
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memory_project.models import SavedView, User

# Lists whose filters can be saved, by the names of their URLs; the other lists of the admin are added below.
PAGES = (
    "my-knowledge",
    "review-list",
    "admin:memories_memoryrecord_changelist",
    "admin:memories_stalememory_changelist",
    "admin:memories_correction_changelist",
    "admin:knowledge_insight_changelist",
    "admin:knowledge_changeset_changelist",
)
TAKEN = gettext_noop("is already the name of one of your views")
MAX_VIEWS = 12  # maximum number of views per person
NAME = Annotated[str, Text(1, 60)]
POSITION_PARAMETERS = ("after", "page", "as_of", "all", "p")  # query parameters that are not saved in a view


def pages() -> list[str]:
    """Return the names of the URLs of all lists whose filters can be saved."""
    tables = [model._meta for model in site._registry]
    lists = [f"admin:{table.app_label}_{table.model_name}_changelist" for table in tables]
    return [*PAGES, *(name for name in lists if name not in PAGES)]


def save(caller: Caller, *, name: str, page: str, query: str) -> SavedView:
    """Save the filters of a list. Raises Conflict if the name is taken or the person has MAX_VIEWS views already."""
    name = validate(NAME, name, "name")
    check_choice("page", page, pages())
    person = User.objects.get(email=caller.email)
    pairs = [(key, value) for key, value in parse_qsl(query) if key not in POSITION_PARAMETERS]
    if person.saved_views.count() >= MAX_VIEWS:
        raise Conflict(
            gettext("can't be saved: you have %(max_views)s views, the most there may be: change one of them")
            % {"max_views": MAX_VIEWS},
            field="name",
        )
    try:
        with transaction.atomic():
            return SavedView.objects.create(person=person, name=name, page=page, query=urlencode(pairs)[:2000])
    except IntegrityError:
        raise Conflict(gettext(TAKEN), field="name") from None


def rename(caller: Caller, *, view_id: int, name: str) -> SavedView:
    """Raises NotFound if the caller has no such view, and Conflict if another view of theirs has the name."""
    name = validate(NAME, name, "name")
    view = SavedView.objects.filter(pk=view_id, person__email=caller.email).first()
    if view is None:
        raise NotFound(gettext("no such saved view"), field="view_id")
    view.name = name
    try:
        with transaction.atomic():
            view.save(update_fields=["name"])
    except IntegrityError:
        raise Conflict(gettext(TAKEN), field="name") from None
    return view


def remove(caller: Caller, *, view_id: int) -> bool:
    return bool(SavedView.objects.filter(pk=view_id, person__email=caller.email).delete()[0])
