"""Error messages for pages: they name a field by its label instead of by its argument name."""

from __future__ import annotations

import re

from django.utils.translation import gettext, gettext_lazy

from foundation.operations.errors import DomainError, with_allowed

LABELS = {
    "content": gettext_lazy("The text"),
    "insight_text": gettext_lazy("The text"),
    "summary": gettext_lazy("The summary"),
    "entity_urns": gettext_lazy("Catalog entities"),
    "related_columns": gettext_lazy("Columns"),
    "tags": gettext_lazy("Tags"),
    "metadata": gettext_lazy("Metadata"),
    "note": gettext_lazy("Your note"),
    "notes": gettext_lazy("Your note"),
    "reason": gettext_lazy("The reason"),
    "choice": gettext_lazy("Your choice"),
    "visibility": gettext_lazy("Readers"),
    "category": gettext_lazy("The category"),
    "ids": gettext_lazy("Your selection"),
    "cases": gettext_lazy("Your selection"),
    "undo": gettext_lazy("This decision"),
    "given": gettext_lazy("Your confirmation"),
    "tool": gettext_lazy("The tool"),
    "unit_ids": gettext_lazy("Your selection"),
    "id": gettext_lazy("This memory"),
    "record_id": gettext_lazy("This memory"),
    "insight_id": gettext_lazy("This insight"),
    "suggestion_id": gettext_lazy("This suggestion"),
    "suggestion_ids": gettext_lazy("Your selection"),
    "contradiction_id": gettext_lazy("This contradiction"),
    "settlement_id": gettext_lazy("This verdict"),
    "scope": gettext_lazy("Where it holds"),
    "first_scope": gettext_lazy("Where the first one holds"),
    "second_scope": gettext_lazy("Where the second one holds"),
    "verdict": gettext_lazy("Your verdict"),
    "finding_id": gettext_lazy("This finding"),
    "batch_id": gettext_lazy("This bulk action"),
    "changeset_id": gettext_lazy("This changeset"),
    "action_id": gettext_lazy("This action"),
    "action_type": gettext_lazy("The change"),
    "change_type": gettext_lazy("The change"),
    "target": gettext_lazy("Where it is changed"),
    "detail": gettext_lazy("The new text or value"),
    "query_sql": gettext_lazy("The SQL statement"),
    "sql": gettext_lazy("The SQL statement"),
    "check": gettext_lazy("The check"),
    "check_id": gettext_lazy("This check"),
    "email": gettext_lazy("The e-mail address"),
    "person": gettext_lazy("This account"),
    "confirm": gettext_lazy("Your confirmation"),
    "to": gettext_lazy("The new owner"),
    "as_of": gettext_lazy("The date"),
    "valid_from": gettext_lazy("“True from”"),
    "valid_until": gettext_lazy("“True until”"),
    "valid_while": gettext_lazy("“True only while”"),
    "address": gettext_lazy("The address"),
    "memory_ids": gettext_lazy("The memories"),
    "document_id": gettext_lazy("This document"),
    "cursor": gettext_lazy("The page’s address"),
    "after": gettext_lazy("The page’s address"),
}
PLACE = re.compile(r"\w+\[(\d+)\]\.?(\w*)")  # matches for example suggested_actions[0].detail


def message_with_label(error: DomainError) -> str:
    """Return the error's message, with the field's label instead of its argument name."""
    if not error.field:
        return error.message
    match = PLACE.fullmatch(error.field)
    name = match[2] if match else error.field.split(".")[0].split("[")[0]
    label = LABELS.get(name, name.replace("_", " ").capitalize())
    if match:
        label = gettext("%(field)s (number %(number)s)") % {"field": label, "number": int(match[1]) + 1}
    return gettext("%(field)s %(fault)s") % {"field": label, "fault": message_without_field(error)}


def message_without_field(error: DomainError) -> str:
    """Return the error's message without its field, for display next to the field."""
    return with_allowed(error.fault, error.allowed)
