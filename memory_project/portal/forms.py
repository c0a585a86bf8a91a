from __future__ import annotations

import re
from typing import Any

from django import forms

from knowledge.changes.change_request import CHANGE_TYPES
from knowledge.models import Insight
from knowledge.operations import ACTIONS_MAX, Capture
from memories.contract.errors import Invalid
from memories.contract.fields import CONTENT_MAX, CONTENT_MIN
from memories.operations import Remember, Revise
from memory_project.portal.fields import form_field, lines_field
from memory_project.portal.wording import beside_its_field


class MemoryForm(forms.Form):
    """One memory, as people write it; the service has the last word on every value."""

    content = form_field(
        Remember,
        "content",
        rows=5,
        autofocus=True,
        label="What should be remembered?",
        help_text=f"One fact, {CONTENT_MIN} to {CONTENT_MAX:,} characters. Say what a colleague would need to know.",
    )
    reason = form_field(Revise, "reason", label="Why the change?", help_text="Kept in the history.")
    dimension = form_field(Remember, "dimension")
    category = form_field(Remember, "category")
    confidence = form_field(Remember, "confidence")
    visibility = form_field(
        Remember,
        "visibility",
        label="Who may read it?",
        labels={"persona": "My persona", "private": "Only me", "everyone": "Everyone here"},
    )
    tags = forms.CharField(required=False, help_text="Separated by commas.")
    entity_urns = lines_field(label="About which catalog entities?", help_text="DataHub URNs, one a line.")

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
        self.add_error(field if field in self.fields else None, beside_its_field(error))


class InsightForm(forms.Form):
    """A pending insight's text and suggested actions, as a curator mends them."""

    content = form_field(Capture, "insight_text", rows=4, autofocus=True, label="The claim", required=True)
    category = form_field(Capture, "category")
    confidence = form_field(Capture, "confidence")
    entity_urns = lines_field(
        label="About which catalog entities?", help_text="DataHub URNs, one a line; changes are made to the first."
    )

    def __init__(self, data: Any = None, *, insight: Insight) -> None:
        record = insight.record
        initial = {name: getattr(record, name) for name in ("content", "category", "confidence")}
        super().__init__(data, initial={**initial, "entity_urns": "\n".join(record.entity_urns)})
        self.initial_actions = [*insight.suggested_actions, *[{}] * ACTIONS_MAX][:ACTIONS_MAX]
        kinds = [("", "No change"), *((name, entry.says) for name, entry in CHANGE_TYPES.items())]
        for index, action in enumerate(self.initial_actions):
            labels = {"action_type": f"Change {index + 1}", "target": "Where", "detail": "New text or value"}
            for name, label in labels.items():
                self.fields[f"{name}-{index}"] = (
                    forms.ChoiceField(choices=kinds, required=False, label=label, initial=action.get(name, ""))
                    if name == "action_type"
                    else forms.CharField(
                        required=False,
                        label=label,
                        initial=action.get(name, ""),
                        widget=forms.Textarea(attrs={"rows": 2}) if name == "detail" else None,
                    )
                )

    @property
    def actions(self) -> list[list[forms.BoundField]]:
        """The fields of each suggested action."""
        return [
            [self[f"{name}-{index}"] for name in ("action_type", "target", "detail")] for index in range(ACTIONS_MAX)
        ]

    @property
    def shown_count(self) -> int:
        """Changes that are shown at once: those that there are, and room for another."""
        return min(sum(bool(action) for action in self.initial_actions) + 1, ACTIONS_MAX)

    @property
    def claim(self) -> list[forms.BoundField]:
        return [self[name] for name in ("content", "category", "confidence", "entity_urns")]

    def values(self) -> dict[str, Any]:
        data = self.cleaned_data
        actions = []
        for index, initial_action in enumerate(self.initial_actions):
            action = {name: data[f"{name}-{index}"] for name in ("action_type", "target", "detail")}
            if action["action_type"]:
                is_same_type = action["action_type"] == initial_action.get("action_type")
                query_fields = {
                    name: initial_action[name]
                    for name in ("query_sql", "query_description")
                    if is_same_type and name in initial_action
                }
                actions.append(action | query_fields)
        return {
            "content": data["content"],
            "category": data["category"],
            "confidence": data["confidence"],
            "entity_urns": [line for line in data["entity_urns"].split("\n") if line.strip()],
            "suggested_actions": actions,
        }

    def refuse(self, error: Invalid) -> None:
        """Shows a service's refusal beside the field it is about: `suggested_actions[1].detail` is detail-1."""
        match = re.fullmatch(r"suggested_actions\[(\d+)\](?:\.(\w+))?", error.field)
        name = f"{match[2] or 'action_type'}-{match[1]}" if match else error.field.split("[")[0]
        self.add_error(name if name in self.fields else None, beside_its_field(error))
