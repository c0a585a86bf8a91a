"""The page of the rules that assign new insights to curators."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.catalog import name_resolution
from knowledge.insights import assignment
from knowledge.models import AssignmentRule
from knowledge.review import clarifications
from memories.models import Category
from memory_project.accounts.names import name_of
from memory_project.portal.curation.review import curator
from memory_project.portal.form_fields import OperationForm

MAX_DOMAINS = 300


class RuleForm(OperationForm):
    persona = forms.ChoiceField(label=gettext_lazy("Insights of the persona"))
    entity_urn = forms.CharField(
        label=gettext_lazy("About this entity"),
        required=False,
        widget=forms.TextInput(attrs={"data-pick": "entity", "spellcheck": "false"}),
        help_text=gettext_lazy("Name or URN. Empty: any entity."),
    )
    domain_urn = forms.ChoiceField(label=gettext_lazy("In this domain"), required=False)
    category = forms.ChoiceField(label=gettext_lazy("Of this category"), required=False)
    assignee = forms.ChoiceField(label=gettext_lazy("Are assigned to"))
    target_days = forms.IntegerField(
        label=gettext_lazy("Target age in days"),
        required=False,
        min_value=1,
        max_value=assignment.MAX_TARGET_DAYS,
        help_text=gettext_lazy("Empty: the installation’s target age."),
    )

    def __init__(self, caller: Caller, data: Any = None, *, rule: AssignmentRule | None = None) -> None:
        initial = {name: getattr(rule, name) for name in self.base_fields} if rule else {"assignee": caller.email}
        super().__init__(data, initial=initial, label_suffix="")
        self.rule = rule
        names = Persona.objects.order_by("name").values_list("name", flat=True)
        choices: dict[str, list[tuple[str, Any]]] = {
            "persona": [(name, name) for name in names if caller.can_review_for(name)],
            "domain_urn": [("", gettext("Any domain")), *_domains()],
            "category": [("", gettext("Any category")), *Category.choices],
            "assignee": _people(caller, rule),
        }
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]  # these are ChoiceFields

    def save(self, caller: Caller) -> tuple[AssignmentRule, int] | None:
        """Save the rule. Returns None if it was refused; the errors are then in the form."""
        values = {name: value or None for name, value in self.cleaned_data.items()}
        try:
            operation = assignment.SaveRule.read({**values, "rule_id": self.rule.pk if self.rule else None})
            return assignment.save_rule(caller, operation)
        except DomainError as error:
            self.refuse(error)
            return None


def _domains() -> list[tuple[str, str]]:
    rows = name_resolution.entities_like("", kinds=["domain"])[:MAX_DOMAINS]
    return [(row.urn, str(row)) for row in rows]


def _people(caller: Caller, rule: AssignmentRule | None) -> list[tuple[str, str]]:
    emails = {caller.email, *(person.email for person in clarifications.colleagues(caller))}
    emails |= {rule.assignee} if rule else set()
    return sorted(((email, name_of(email)) for email in emails), key=lambda choice: choice[1].casefold())


@login_required
def rules(request: HttpRequest) -> HttpResponse:
    """List the rules, and add one."""
    return _page(request, curator(request), None)


@login_required
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Change a rule."""
    caller = curator(request)
    return _page(request, caller, assignment.get_rule(caller, rule_id))


def _page(request: HttpRequest, caller: Caller, changed: AssignmentRule | None) -> HttpResponse:
    form = RuleForm(caller, request.POST or None, rule=changed)
    if request.method == "POST" and form.is_valid() and (saved := form.save(caller)):
        messages.success(request, _saved(saved[1]))
        return redirect("assignment-rules")
    rows = assignment.rules_of(caller)
    context = {"form": form, "changed": changed, "rules": rows, "without_effect": assignment.without_effect(rows)}
    return render(request, "review/rules.html", context, status=400 if form.errors else 200)


def _saved(assigned: int) -> str:
    if not assigned:
        return gettext("Saved. The rule applies to new insights.")
    return ngettext(
        "Saved. The rule applies to new insights, and %(n)s waiting insight was assigned.",
        "Saved. The rule applies to new insights, and %(n)s waiting insights were assigned.",
        assigned,
    ) % {"n": assigned}


@require_POST
@login_required
def delete_rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    assignment.delete_rule(curator(request), rule_id=rule_id)
    messages.success(request, gettext("Rule deleted. Insights that it has assigned stay assigned."))
    return redirect("assignment-rules")
