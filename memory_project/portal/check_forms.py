"""The form to write or change a check of a memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from analysis.models import Expectation
from memory_project.portal.form_fields import OperationForm

VALUES = ("value", "low", "high")


class CheckForm(OperationForm):
    """A statement and what it should return. The operation validates the texts."""

    source = forms.ChoiceField(label=gettext_lazy("Warehouse"))
    sql = forms.CharField(
        label=gettext_lazy("Statement"),
        help_text=gettext_lazy("One SELECT, whose result says whether the memory is true."),
        widget=forms.Textarea(attrs={"rows": 5, "spellcheck": "false", "maxlength": 20_000}),
    )
    expects = forms.ChoiceField(
        label=gettext_lazy("What it returns if the memory is true"), choices=Expectation.choices
    )
    value = forms.CharField(
        label=gettext_lazy("Value"), required=False, help_text=gettext_lazy("For “Equals” and “At least”.")
    )
    low = forms.CharField(label=gettext_lazy("Lowest value"), required=False, help_text=gettext_lazy("For “Between”."))
    high = forms.CharField(
        label=gettext_lazy("Highest value"), required=False, help_text=gettext_lazy("For “Between”.")
    )

    def __init__(self, *args: Any, sources: Sequence[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["source"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, name) for name in sources]

    def values(self) -> dict[str, Any]:
        """Return the arguments of the operation. Empty values are left out."""
        return {name: value for name, value in self.cleaned_data.items() if value or name not in VALUES}
