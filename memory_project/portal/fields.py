"""Form fields from operations: what a page offers is what the operation takes."""

from __future__ import annotations

from typing import Any

from django import forms

from memories.contract.operations import Operation


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
    schema = operation.takes(by_alias=False)
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


def lines_field(**extra: Any) -> forms.CharField:
    """A list of URNs, one a line."""
    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})
    return forms.CharField(required=False, widget=widget, **extra)
