"""Form fields from operations: what a page offers is what the operation takes."""

from __future__ import annotations

from typing import Any

from django import forms

from knowledge.catalog.name_resolution import urn_of
from memories.contract.errors import Invalid
from memories.contract.operations import Operation
from memory_project.portal.error_labels import beside_its_field


def form_field(
    operation: type[Operation],
    name: str,
    *,
    rows: int = 0,
    autofocus: bool = False,
    labels: dict[str, str] | None = None,
    **extra: Any,
) -> forms.Field:
    """The field of this name, with its choices, its default and its limit in characters; `rows` makes room for a long
    text, `labels` says what people call the choices. The operation judges what is sent."""
    schema = operation.input_schema(by_alias=False)
    described = schema["properties"][name]
    options = {"required": name in schema.get("required", []), **extra}
    if "enum" in described:
        values = sorted(described["enum"], key=list(labels).index) if labels else described["enum"]
        choices = [(value, (labels or {}).get(value) or value.replace("_", " ").title()) for value in values]
        return forms.ChoiceField(choices=choices, **{"initial": described.get("default"), **options, "required": True})
    attrs: dict[str, Any] = {"maxlength": described["maxLength"]} if "maxLength" in described else {}
    attrs |= {"autofocus": True} if autofocus else {}
    widget = forms.Textarea(attrs={**attrs, "rows": rows}) if rows else forms.TextInput(attrs=attrs)
    return forms.CharField(widget=widget, **options)


class EntitiesField(forms.CharField):
    """Entities by name or URN, one a line; a picker where there is script. Its value is a list of URNs."""

    widget = forms.Textarea

    def __init__(self, **extra: Any) -> None:
        attrs = {"rows": 2, "spellcheck": "false", "data-pick": "entity", "data-many": "line"}
        super().__init__(required=False, widget=forms.Textarea(attrs=attrs), **extra)

    def clean(self, value: Any) -> Any:
        urns: list[str] = []
        for line in str(super().clean(value)).splitlines():
            if not line.strip():
                continue
            try:
                urns.append(urn_of(line))
            except Invalid as error:
                raise forms.ValidationError(beside_its_field(error)) from None
        return list(dict.fromkeys(urns))


def tags_field() -> forms.CharField:
    """Tags, separated by commas; a picker where there is script."""
    attrs = {"data-pick": "tag", "data-many": "comma"}
    return forms.CharField(required=False, help_text="Separated by commas.", widget=forms.TextInput(attrs=attrs))
