"""Error messages for pages: they name a field by its label instead of by its argument name."""

from __future__ import annotations

import re

from memories.contract.errors import DomainError

LABELS = {
    "content": "The text",
    "insight_text": "The text",
    "summary": "The summary",
    "entity_urns": "Catalog entities",
    "related_columns": "Columns",
    "tags": "Tags",
    "metadata": "Metadata",
    "note": "Your note",
    "notes": "Your note",
    "reason": "The reason",
    "visibility": "Who may read it",
    "category": "The category",
    "ids": "Your selection",
    "unit_ids": "Your selection",
    "id": "This memory",
    "record_id": "This memory",
    "insight_id": "This insight",
    "finding_id": "This finding",
    "batch_id": "This bulk action",
    "changeset_id": "This changeset",
    "action_id": "This action",
    "action_type": "The change",
    "change_type": "The change",
    "target": "Where it is changed",
    "detail": "The new text or value",
    "query_sql": "The SQL statement",
    "email": "The e-mail address",
    "as_of": "The date",
    "cursor": "The page’s address",
    "after": "The page’s address",
}
PLACE = re.compile(r"\w+\[(\d+)\]\.?(\w*)")  # matches for example suggested_actions[0].detail


def message_with_label(error: DomainError) -> str:
    """Return the error's message, with the field's label instead of its argument name."""
    if not error.field:
        return error.message
    match = PLACE.fullmatch(error.field)
    name = match[2] if match else error.field.split(".")[0].split("[")[0]
    label = LABELS.get(name, name.replace("_", " ").capitalize())
    label = f"{label} (number {int(match[1]) + 1})" if match else label
    return f"{label} {message_without_field(error)}"


def message_without_field(error: DomainError) -> str:
    """Return the error's message without its field, for display next to the field."""
    return f"{error.fault}; allowed: {error.allowed}" if error.allowed else error.fault
