"""Forms for proposing an insight and for editing it in the review: a claim and the catalog changes it suggests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from foundation.operations.errors import DomainError
from knowledge.catalog.interface import entity_type
from knowledge.changesets.change_request import CHANGE_TYPES, MAX_DETAIL, MAX_TARGET
from knowledge.models import Insight
from knowledge.operations import MAX_ACTIONS, Capture
from memory_project.portal.form_fields import EntitiesField, OperationForm, form_field, scope_field
from memory_project.portal.labels import READERS, READERS_HELP

COLUMN = "column:"
PARTS = ("action_type", "target", "detail", "query_sql", "query_description")
SHOWN_PARTS = PARTS[:4]


class SuggestionForm(OperationForm):
    """A claim and up to MAX_ACTIONS changes. The initial first entity decides which types of change are offered."""

    content = form_field(Capture, "insight_text", rows=4, autofocus=True, label=gettext_lazy("Claim"), required=True)
    category = form_field(Capture, "category")
    confidence = form_field(Capture, "confidence")
    entity_urns = EntitiesField(
        label=gettext_lazy("About which catalog entities?"),
        help_text=gettext_lazy("One name or URN per line. Changes apply to the first entity."),
    )
    claim_names: Sequence[str] = ("content", "category", "confidence", "entity_urns")

    def __init__(
        self, data: Any = None, *, initial: Mapping[str, Any], actions: Sequence[Mapping[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(data, initial=dict(initial), **kwargs)
        self.initial_actions = [*actions, *[{}] * MAX_ACTIONS][:MAX_ACTIONS]
        first = next(iter(str(initial.get("entity_urns", "")).splitlines()), "")
        kinds = [
            ("", gettext("No change")),
            *_action_choices(first, [action.get("action_type", "") for action in actions]),
        ]
        for index, action in enumerate(self.initial_actions):
            for name, field in _action_fields(index, action, kinds).items():
                self.fields[f"{name}-{index}"] = field

    @property
    def actions(self) -> list[list[forms.BoundField]]:
        return [[self[f"{name}-{index}"] for name in SHOWN_PARTS] for index in range(MAX_ACTIONS)]

    @property
    def shown_count(self) -> int:
        """The number of changes that are not collapsed: the changes suggested already, and one empty change."""
        return min(sum(bool(action) for action in self.initial_actions) + 1, MAX_ACTIONS)

    @property
    def claim(self) -> list[forms.BoundField]:
        return [self[name] for name in self.claim_names]

    def values(self) -> dict[str, Any]:
        """Return the values in the form that the insight services accept.

        If the type of change allows columns, a target without a prefix is taken as the name of a column.
        """
        names = [name for name in self.claim_names if name != "content"]
        suggested = [
            action
            for index, initial_action in enumerate(self.initial_actions)
            if (action := self._action(index, initial_action))
        ]
        claim = {name: self.cleaned_data[name] for name in names}
        return {**claim, "content": self.cleaned_data["content"], "suggested_actions": suggested}

    def _action(self, index: int, initial_action: Mapping[str, str]) -> dict[str, str]:
        action = {name: self.cleaned_data[f"{name}-{index}"].strip() for name in SHOWN_PARTS}
        kind = CHANGE_TYPES.get(action["action_type"])
        if kind is None:
            return {}
        if kind.target.startswith("empty, or column") and action["target"] and ":" not in action["target"]:
            action["target"] = COLUMN + action["target"]
        if action["action_type"] == initial_action.get("action_type") and "query_description" in initial_action:
            action["query_description"] = initial_action["query_description"]
        return {name: text for name, text in action.items() if text or name in ("target", "detail")}

    def field_of(self, error: DomainError) -> str:
        """Return the field that an error names: `suggested_actions[1].detail` is the field `detail-1`."""
        match = re.fullmatch(r"suggested_actions\[(\d+)\](?:\.(\w+))?", error.field)
        if match:
            return f"{match[2] or 'action_type'}-{match[1]}"
        name = super().field_of(error)
        return "content" if name == "insight_text" else name


class InsightForm(SuggestionForm):
    def __init__(self, data: Any = None, *, insight: Insight) -> None:
        record = insight.record
        initial = {name: getattr(record, name) for name in ("content", "category", "confidence")}
        initial["entity_urns"] = "\n".join(record.entity_urns)
        super().__init__(data, initial=initial, actions=insight.suggested_actions)


class ProposalForm(SuggestionForm):
    visibility = form_field(
        Capture,
        "visibility",
        label=gettext_lazy("Readers once it is approved"),
        labels=READERS,
        help_text=READERS_HELP,
    )
    claim_names = ("content", "entity_urns", "category", "confidence", "visibility", "scope")

    def __init__(self, *args: Any, scopes: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["scope"] = scope_field(scopes, str(self.initial.get("scope", "")))


def _action_choices(urn: str, present: Sequence[str]) -> list[tuple[str, str]]:
    """Return the types of change that apply to this entity, or all types if no entity is given.

    The types in `present` are always included.
    """
    kind = entity_type(urn)
    return [
        (name, gettext(entry.label))
        for name, entry in CHANGE_TYPES.items()
        if not kind or not entry.kinds or kind in entry.kinds or name in present
    ]


def _action_fields(index: int, action: Mapping[str, str], kinds: Sequence[tuple[str, str]]) -> dict[str, forms.Field]:
    column = {"data-pick": "column", "data-about": "id_entity_urns", "spellcheck": "false"}
    sql = {"rows": 3, "spellcheck": "false", "data-for": "add_curated_query"}
    return {
        "action_type": forms.ChoiceField(
            choices=kinds,
            required=False,
            label=gettext("Change %(number)s") % {"number": index + 1},
            initial=action.get("action_type", ""),
        ),
        "target": forms.CharField(
            required=False,
            label=gettext("Where"),
            max_length=MAX_TARGET,
            initial=action.get("target", "").removeprefix(COLUMN),
            widget=forms.TextInput(attrs=column),
        ),
        "detail": forms.CharField(
            required=False,
            label=gettext("New text or value"),
            max_length=MAX_DETAIL,
            initial=action.get("detail", ""),
            widget=forms.Textarea(attrs={"rows": 2}),
        ),
        "query_sql": forms.CharField(
            required=False,
            label=gettext("SQL statement"),
            max_length=MAX_DETAIL,
            initial=action.get("query_sql", ""),
            widget=forms.Textarea(attrs=sql),
        ),
    }
