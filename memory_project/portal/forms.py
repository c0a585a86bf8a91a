from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

from django import forms
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from foundation.people.models import Persona
from memories.models import CitingDocument, MemoryRecord
from memories.operations import Remember, Revise, Share
from memories.use.citations.operations import Cite
from memory_project.notifications.webhooks.events import KINDS
from memory_project.notifications.webhooks.models import Endpoint
from memory_project.notifications.webhooks.operations import CreateEndpoint
from memory_project.portal.form_fields import EntitiesField, OperationForm, form_field, scope_field, tags_field
from memory_project.portal.labels import READERS, READERS_HELP

EVENTS = {kind: gettext_lazy(title) for kind, title in KINDS.items()}


class DayInput(forms.DateInput):
    input_type = "date"


def day_bound(day: date, time_of_day: time) -> datetime:
    """Return the start or the end of a day in the time zone of the person who fills in the form."""
    return timezone.make_aware(datetime.combine(day, time_of_day))


def day_field(label: Any, help_text: Any) -> forms.DateField:
    return forms.DateField(required=False, label=label, help_text=help_text, widget=DayInput(format="%Y-%m-%d"))


class MemoryForm(OperationForm):
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
        labels=READERS,
        help_text=READERS_HELP,
    )
    tags = tags_field()
    entity_urns = EntitiesField(
        label=gettext_lazy("About which catalog entities?"),
        help_text=gettext_lazy("Names from the catalog or URNs, one per line."),
    )

    valid_from = day_field(gettext_lazy("True from"), gettext_lazy("The first day. Empty: always."))
    valid_until = day_field(gettext_lazy("True until"), gettext_lazy("The last day. Empty: no end."))
    valid_while = form_field(
        Remember,
        "valid_while",
        label=gettext_lazy("True only while"),
        help_text=gettext_lazy("incident:<URN>, deprecated:<URN or name> or period:<name>, until that has ended."),
    )

    def __init__(self, *args: Any, scopes: Mapping[str, str], new: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scope"] = scope_field(scopes, str(self.initial.get("scope", "")))
        if new:
            del self.fields["reason"]

    @property
    def is_limited(self) -> bool:
        """Return whether one of the fields that limit the memory to a time or scope has a value or an error."""
        fields = [self[name] for name in ("valid_from", "valid_until", "valid_while", "scope")]
        return any(field.value() or field.errors for field in fields)

    def values(self) -> dict[str, Any]:
        data = dict(self.cleaned_data)
        data["tags"] = [tag.strip() for tag in data["tags"].split(",") if tag.strip()]
        for name in ("valid_from", "valid_until"):
            day = data[name]
            data[name] = day_bound(day, time.min if name == "valid_from" else time.max) if day else ""
        return data

    @staticmethod
    def day_of(moment: datetime | None) -> date | None:
        """Return what the form shows of a bound. A time of day is not shown."""
        return timezone.localtime(moment).date() if moment else None


class ShareForm(forms.Form):
    """Who may read a memory."""

    def __init__(self, record: MemoryRecord) -> None:
        super().__init__(initial={"visibility": record.visibility}, auto_id="%s", label_suffix="")
        readers = {**READERS, "persona": gettext("Persona %(persona)s") % {"persona": record.persona}}
        self.fields["visibility"] = form_field(Share, "visibility", label="", labels=readers, help_text=READERS_HELP)
        self.fields["visibility"].widget.attrs["aria-labelledby"] = "readers"  # the heading of the panel


class MoveForm(forms.Form):
    """The persona that a memory belongs to from now on. Without other personas, the form has no field."""

    def __init__(self, personas: Sequence[Persona]) -> None:
        super().__init__(auto_id="%s", label_suffix="")
        if personas:
            choices = [(persona.name, str(persona)) for persona in personas]
            self.fields["persona"] = forms.ChoiceField(label=gettext("Move to another persona"), choices=choices)


class EndpointForm(OperationForm):
    """Where events are sent, and which."""

    name = form_field(
        CreateEndpoint,
        "name",
        label=gettext_lazy("Name"),
        help_text=gettext_lazy("Where the events go, for example “Ticket system”."),
    )
    url = form_field(CreateEndpoint, "url", label=gettext_lazy("URL"))
    kinds = form_field(CreateEndpoint, "kinds", label=gettext_lazy("Events"), labels=EVENTS)
    with_texts = form_field(
        CreateEndpoint,
        "with_texts",
        label=gettext_lazy("Send the texts that I may read. Otherwise, ids and states only."),
    )

    def __init__(self, data: Any = None, *, endpoint: Endpoint | None = None) -> None:
        names = ("name", "url", "kinds", "with_texts")
        initial = {name: getattr(endpoint, name) for name in names} if endpoint else None
        key = endpoint.pk.hex if endpoint else "new"
        super().__init__(data, initial=initial, auto_id=f"%s-{key}", label_suffix="")
        self.fields["url"].widget.attrs |= {
            "inputmode": "url",
            "placeholder": "https://tickets.example.org/hooks/commonplace",
        }


class CitingForm(OperationForm):
    """A document that cites memories. With one that is registered already, only the text is shown."""

    address = form_field(
        Cite,
        "address",
        label=gettext_lazy("Where it is"),
        help_text=gettext_lazy(
            "A URL, or other words, such as the name of a dashboard. Registering the same again replaces what it cites."
        ),
    )
    title = form_field(Cite, "title", label=gettext_lazy("Title"))
    text = form_field(
        Cite,
        "text",
        rows=5,
        required=True,
        strip=False,
        label=gettext_lazy("Its text, with addresses of memories"),
        help_text=gettext_lazy(
            "Addresses are commonplace://memory/… and the addresses of memories’ pages here. The text itself is not "
            "stored."
        ),
    )
    is_shared = form_field(
        Cite, "is_shared", label=gettext_lazy("Show title and address to people who can read the memories")
    )

    def __init__(self, data: Any = None, *, document: CitingDocument | None = None) -> None:
        names = ("address", "title", "is_shared")
        initial = {name: getattr(document, name) for name in names} if document else None
        key = document.pk.hex if document else "new"
        super().__init__(data, initial=initial, auto_id=f"%s-{key}", label_suffix="")
        self.fields["address"].widget.attrs["placeholder"] = "https://docs.example.org/margins"
        self.fields["text"].widget.attrs["dir"] = "auto"
        if document:
            for name in names:
                self.fields[name].widget = self.fields[name].hidden_widget()
