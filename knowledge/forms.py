from __future__ import annotations

from typing import Any

from django import forms

from memories.errors import Invalid
from memories.models import Category, Confidence, Dimension, Visibility
from memories.validation import CONTENT_MAX, CONTENT_MIN


class MemoryForm(forms.Form):
    """One memory, as people write it; the service has the last word on every value."""

    content = forms.CharField(
        label="What should be remembered?",
        help_text=f"One fact, {CONTENT_MIN} to {CONTENT_MAX:,} characters. Say what a colleague would need to know.",
        widget=forms.Textarea(attrs={"rows": 5, "maxlength": CONTENT_MAX}),
    )
    reason = forms.CharField(required=False, label="Why the change?", help_text="Kept in the history.")
    dimension = forms.ChoiceField(choices=Dimension.choices)
    category = forms.ChoiceField(choices=Category.choices, initial=Category.BUSINESS_CONTEXT)
    confidence = forms.ChoiceField(choices=Confidence.choices, initial=Confidence.MEDIUM)
    visibility = forms.ChoiceField(
        label="Who may read it?",
        choices=[
            (Visibility.PERSONA, "My persona"),
            (Visibility.PRIVATE, "Only me"),
            (Visibility.EVERYONE, "Everyone here"),
        ],
    )
    tags = forms.CharField(required=False, help_text="Separated by commas.")
    entity_urns = forms.CharField(
        required=False,
        label="About which catalog entities?",
        help_text="DataHub URNs, one a line.",
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )

    def __init__(self, *args: Any, new: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if new:
            del self.fields["reason"]

    def values(self) -> dict[str, Any]:
        """The cleaned values as the services take them."""
        data = dict(self.cleaned_data)
        data["tags"] = [tag.strip() for tag in data["tags"].split(",") if tag.strip()]
        data["entity_urns"] = data["entity_urns"].split("\n") if data["entity_urns"] else []
        return data

    def refuse(self, error: Invalid) -> None:
        """Shows a service's refusal beside the field it is about."""
        field = error.field.split("[")[0]
        self.add_error(field if field in self.fields else None, error.message)
