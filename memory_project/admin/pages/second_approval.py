"""Admin page: when a changeset needs two approvals, and how often curators agree."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods

from foundation.operations.errors import DomainError
from knowledge.changesets import approvals, risk
from knowledge.models import ApprovalRule
from memory_project.admin.pages.people import admin_of
from memory_project.web.error_labels import message_without_field


class ApprovalRuleForm(forms.Form):
    readers = forms.IntegerField(
        label=gettext_lazy("Readers"),
        required=False,
        min_value=1,
        help_text=gettext_lazy(
            "Needs two approvals if at least this many people were shown memories about its entities in the last 30 days. Empty: switched off."  # noqa: E501
        ),
    )
    derived = forms.IntegerField(
        label=gettext_lazy("Derived entities"),
        required=False,
        min_value=1,
        help_text=gettext_lazy("The same for entities that are derived from its entities, up to 5 steps of lineage."),
    )
    sensitive = forms.CharField(
        label=gettext_lazy("Sensitive tags and terms"),
        required=False,
        max_length=4000,
        help_text=gettext_lazy(
            "Words, separated by commas, such as: pii, confidential. A change of a tag or term with one of them in its name needs two approvals."  # noqa: E501
        ),
    )

    def __init__(self, rule: ApprovalRule, data: Any = None) -> None:
        initial = {"readers": rule.readers, "derived": rule.derived, "sensitive": ", ".join(rule.sensitive)}
        super().__init__(data, initial=initial, label_suffix="")

    def operation(self) -> approvals.SaveApprovalRule:
        values = self.cleaned_data
        words = [word.strip() for word in values["sensitive"].split(",") if word.strip()]
        return approvals.SaveApprovalRule.read({**values, "sensitive": words})


@require_http_methods(["GET", "HEAD", "POST"])
def second_approval(request: HttpRequest) -> HttpResponse:
    caller = admin_of(request)
    rule = risk.rule()
    form = ApprovalRuleForm(rule, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            approvals.save_rule(caller, form.operation())
        except DomainError as error:
            form.add_error(error.field if error.field in form.fields else None, message_without_field(error))
        else:
            messages.success(request, gettext("Saved. It counts for changesets applied from now on."))
            return redirect(reverse("admin:second-approval"))
    context = {
        "form": form,
        "rule": rule,
        "agreement": approvals.agreement(caller),
        "waiting": approvals.waiting(caller).count(),
    }
    return render(request, "operate/second_approval.html", context, status=422 if form.errors else 200)
