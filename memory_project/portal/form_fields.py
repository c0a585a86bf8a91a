"""Form fields derived from operations, so that forms offer exactly what the operations accept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django import forms
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from foundation.operations.errors import DomainError, Invalid
from foundation.operations.operation import Operation
from knowledge.catalog.name_resolution import urn_of
from memories.validity.scopes.choices import labels
from memory_project.portal.labels import FIELDS, title_of
from memory_project.web.error_labels import message_with_label, message_without_field

AnyOperation = TypeVar("AnyOperation", bound=Operation)
FIELD_LABELS: Mapping[str, str | Promise] = {
    **FIELDS,
    "reason": gettext_lazy("Reason"),
    "notes": gettext_lazy("Note"),
}

SCOPE_KINDS: Mapping[str, str | Promise] = {
    "purpose": gettext_lazy("Purposes"),
    "domain": gettext_lazy("Domains"),
    "persona": gettext_lazy("Personas"),
}


def form_field(
    operation: type[Operation],
    name: str,
    *,
    rows: int = 0,
    autofocus: bool = False,
    labels: Mapping[str, str | Promise] | None = None,
    **extra: Any,
) -> forms.Field:
    """Return a form field for a field of an operation.

    A field with fixed values becomes a required choice, a list of them becomes check boxes, and a boolean one check
    box. `labels` maps every value to its display name, in the order in which the form shows them. Any other field
    becomes a text input, or a text area of `rows` lines if `rows` is not 0, with the same maximum length. The form
    doesn't check the text itself: the operation validates it.
    """
    schema = operation.input_schema(by_alias=False)
    field_schema = schema["properties"][name]
    options = {"required": name in schema.get("required", []), "label": FIELD_LABELS.get(name), **extra}
    if field_schema.get("type") == "boolean":
        return forms.BooleanField(**{**options, "required": False})
    if field_schema.get("type") == "array":
        choices = _choices(field_schema["items"]["enum"], labels)
        return forms.MultipleChoiceField(choices=choices, widget=forms.CheckboxSelectMultiple, **options)
    if "enum" in field_schema:
        choices = _choices(field_schema["enum"], labels)
        return forms.ChoiceField(
            choices=choices, **{"initial": field_schema.get("default"), **options, "required": True}
        )
    attrs: dict[str, Any] = {"maxlength": field_schema["maxLength"]} if "maxLength" in field_schema else {}
    attrs |= {"autofocus": True} if autofocus else {}
    widget = forms.Textarea(attrs={**attrs, "rows": rows}) if rows else forms.TextInput(attrs=attrs)
    return forms.CharField(widget=widget, **options)


def _choices(values: Sequence[str], labels: Mapping[str, str | Promise] | None) -> list[tuple[str, str | Promise]]:
    ordered = sorted(values, key=list(labels).index) if labels else values
    return [(value, (labels or {}).get(value) or title_of(value)) for value in ordered]


class OperationForm(forms.Form):
    """A form whose values an operation or a service validates. Its errors are shown at the fields that they name."""

    def field_of(self, error: DomainError) -> str:
        """Return the field of the form that an error is about."""
        return error.field.split("[")[0]

    def refuse(self, error: DomainError) -> None:
        """Show an error at its field, or above the form if the form has no such field."""
        name = self.field_of(error)
        if name in self.fields:
            self.add_error(name, message_without_field(error))
        else:
            self.add_error(None, message_with_label(error))


def posted(operation: type[AnyOperation], request: HttpRequest, *names: str, **known: Any) -> AnyOperation:
    """Read an operation from these fields of a form that was sent, and from values that the view knows.

    A field that the form lacks keeps its default. Raises Invalid, which names the field.
    """
    return operation.read({**{name: request.POST[name] for name in names if name in request.POST}, **known})


def scope_groups(scopes: Mapping[str, str], present: str = "") -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the choices of a scope, grouped by kind. The `present` one is among them, also if it was removed."""
    known = dict(scopes)
    if present and present not in known:
        known |= labels([present])
    groups = []
    for kind, title in SCOPE_KINDS.items():
        of_kind = [(scope, label) for scope, label in known.items() if scope.startswith(f"{kind}:")]
        if of_kind:
            groups.append((str(title), sorted(of_kind, key=lambda choice: choice[1].casefold())))
    return groups


def scope_field(scopes: Mapping[str, str], present: str) -> forms.ChoiceField:
    return forms.ChoiceField(
        required=False,
        label=gettext_lazy("Where does it hold?"),
        help_text=gettext_lazy("If the same words mean something else elsewhere, for example to another department."),
        choices=[("", gettext_lazy("Everywhere")), *scope_groups(scopes, present)],
        initial=present,
    )


class EntitiesField(forms.CharField):
    """Catalog entities by name or URN, one per line, with autocomplete. The cleaned value is a list of URNs."""

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
                raise forms.ValidationError(message_without_field(error)) from None
        return list(dict.fromkeys(urns))


def tags_field() -> forms.CharField:
    attrs = {"data-pick": "tag", "data-many": "comma"}
    return forms.CharField(
        required=False,
        label=gettext_lazy("Tags"),
        help_text=gettext_lazy("Separated by commas."),
        widget=forms.TextInput(attrs=attrs),
    )
