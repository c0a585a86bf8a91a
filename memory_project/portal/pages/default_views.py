"""The saved view that a list opens with."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from memory_project.models import SavedView
from memory_project.portal.pages.models import DefaultView


def default_view(caller: Caller, page: str) -> SavedView | None:
    # The view's owner is compared, too: a hand-over moves views to another person.
    rows = DefaultView.objects.filter(page=page, person__email=caller.email, view__person__email=caller.email)
    row = rows.select_related("view").first()
    return row.view if row else None


def set_default(caller: Caller, *, view_id: int, is_default: bool) -> SavedView:
    """Open the view's list with it from now on, or no longer. Raises NotFound if the caller has no such view."""
    with transaction.atomic():
        view = SavedView.objects.select_for_update().filter(pk=view_id, person__email=caller.email).first()
        if view is None:
            raise NotFound(gettext("no such saved view"), field="view_id")
        DefaultView.objects.filter(view=view).delete()
        if is_default:
            DefaultView.objects.update_or_create(person_id=view.person_id, page=view.page, defaults={"view": view})
    return view
