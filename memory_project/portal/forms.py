from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from memories.contract.errors import Invalid
from memories.operations import Remember, Revise
from memory_project.portal.error_labels import message_without_field
from memory_project.portal.form_fields import READERS, EntitiesField, form_field, scope_field, tags_field


class MemoryForm(forms.Form):
    """A form to write or edit a memory. The operation validates the texts, the form itself the entities."""

    content = form_field(
        Remember,
        "content",
        rows=5,
        autofocus=True,
        label=gettext_lazy("What should be remembered?"),
        help_text=gettext_lazy("One fact. Say what a colleague would need to know."),
    )
    reason = form_field(
        Revise, "reason", label=gettext_lazy("Why the change?"), help_text=gettext_lazy("Kept in the history.")
    )
    dimension = form_field(Remember, "dimension")
    category = form_field(Remember, "category")
    confidence = form_field(Remember, "confidence")
    visibility = form_field(
        Remember,
        "visibility",
        label=gettext_lazy("Who may read it?"),
        labels=READERS,
    )
    tags = tags_field()
    entity_urns = EntitiesField(
        label=gettext_lazy("About which catalog entities?"),
        help_text=gettext_lazy("Names from the catalog or URNs, one per line."),
    )

    def __init__(self, *args: Any, scopes: Mapping[str, str], new: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scope"] = scope_field(scopes, str(self.initial.get("scope", "")))
        if new:
            del self.fields["reason"]

    def values(self) -> dict[str, Any]:
        data = dict(self.cleaned_data)
        data["tags"] = [tag.strip() for tag in data["tags"].split(",") if tag.strip()]
        return data

    def refuse(self, error: Invalid) -> None:
        """Show an error at the field that it names, or above the form if the form has no such field."""
        field = error.field.split("[")[0]
        self.add_error(field if field in self.fields else None, message_without_field(error))
