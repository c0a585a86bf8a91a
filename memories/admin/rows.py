"""Pages of a single row: its actions at the top, links to what belongs to it, its history, and a test of its form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import unquote
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.db.models import Exists
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import Truncator, capfirst

from foundation.operations.display import show_invisible
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from memories.admin.history import HistoryLine, edits_of
from memories.admin.lists import admin_caller
from memories.models import MemoryRecord

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEST = "_test"  # name of the button


@dataclass(frozen=True)
class Link:
    title: str
    address: str
    note: str = ""


@dataclass(frozen=True)
class TestAnswer:
    """The answer of a test. `lines` are shown as they are, below the text."""

    is_good: bool
    text: str
    lines: Sequence[str] = ()


# Returns links to other rows that belong to a memory, by the heading above them. Every app may contribute.
LinkSource = Callable[[Caller, MemoryRecord], Mapping[str, Sequence[Link]]]
_link_sources: list[LinkSource] = []


def add_links(source: LinkSource) -> None:
    if source not in _link_sources:
        _link_sources.append(source)


def links_of(caller: Caller, record: MemoryRecord) -> dict[str, Sequence[Link]]:
    return {title: links for source in _link_sources for title, links in source(caller, record).items()}


def names_of(emails: Collection[str]) -> dict[str, str]:
    people = get_user_model()._default_manager.filter(email__in=emails).exclude(name="")
    return dict(people.values_list("email", "name"))


class RowPage(admin.ModelAdmin[Any]):
    test_title: StrOrPromise = ""  # label of the button that tests the values of the form; "": there is none

    def row_title(self, row: Any) -> str:
        return show_invisible(Truncator(capfirst(str(row))).chars(120))

    def portal_links(self, request: HttpRequest, row: Any) -> Sequence[Link]:
        """Return links to the row's page in the portal, and to what is done there."""
        return []

    def links(self, request: HttpRequest, row: Any) -> Mapping[str, Sequence[Link]]:
        """Return links to other rows that belong to this one, by the heading above them."""
        return {}

    def history_lines(self, request: HttpRequest, row: Any) -> Sequence[HistoryLine]:
        return edits_of(row)

    def test(self, request: HttpRequest, row: Any, values: Mapping[str, Any]) -> TestAnswer:
        """Try the valid, unsaved values of the form by the code that uses them in earnest, outside of a transaction."""
        raise NotImplementedError

    def back_to(self, request: HttpRequest) -> str:
        """Return the page from which a confirmed action started."""
        return request.get_full_path()

    # -- actions -------------------------------------------------------------------------------------------------

    def row_actions(self, request: HttpRequest, row: Any) -> list[tuple[str, str]]:
        """Return the name and the label of the actions that apply to the row in its state."""
        found: Mapping[str, Any] = self.get_actions(request)
        actions = {name: (act, label) for name, (act, _, label) in found.items()}
        conditions = {
            name: Exists(
                act.definition.action.offered(admin_caller(request), self.model._default_manager.filter(pk=row.pk))
            )
            for name, (act, _) in actions.items()
            if hasattr(act, "definition")
        }
        applies = self.model._base_manager.filter(pk=row.pk).values(**conditions).first() if conditions else None
        return [(name, str(label)) for name, (_, label) in actions.items() if (applies or {}).get(name, True)]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> Any:
        if request.method == "POST" and "action" in request.POST:
            return self._act_on_row(request, object_id)
        return super().change_view(request, object_id, form_url, extra_context)

    def _act_on_row(self, request: HttpRequest, object_id: str) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]  # private
        name = request.POST["action"]
        actions: Mapping[str, Any] = self.get_actions(request)
        if not self.has_view_or_change_permission(request, row) or name not in actions:
            raise PermissionDenied
        form = request.POST.copy()
        form.setlist(ACTION_CHECKBOX_NAME, [str(row.pk)])
        form["select_across"] = "0"
        request.POST = form  # type: ignore[assignment]  # the row of the page, whatever was posted
        rows = self.get_queryset(request).filter(pk=row.pk)
        response = actions[name][0](self, request, rows)
        if isinstance(response, HttpResponse):
            return response
        return redirect(request.path if self.get_queryset(request).filter(pk=row.pk).exists() else self.list_address())

    def list_address(self) -> str:
        return reverse(f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_changelist")

    # -- the page ------------------------------------------------------------------------------------------------

    def render_change_form(
        self,
        request: HttpRequest,
        context: dict[str, Any],
        add: bool = False,
        change: bool = False,
        form_url: str = "",
        obj: Any = None,
    ) -> Any:
        context = {"table_title": self.table_title(), "list_address": self.list_address(), **context}  # type: ignore[attr-defined]  # of ListPage
        if self.test_title and (self.has_change_permission(request, obj) if obj else self.has_add_permission(request)):
            context["test_title"] = self.test_title
            context["test_name"] = TEST
        if obj is not None and obj.pk:
            context |= {
                "title": self.row_title(obj),
                "subtitle": None,
                "portal_links": self.portal_links(request, obj),
                "row_actions": self.row_actions(request, obj),
                "links": {title: links for title, links in self.links(request, obj).items() if links},
                "history": (lines := self.history_lines(request, obj)),
                "names": names_of({line.by for line in lines}),
            }
        return super().render_change_form(request, context, add, change, form_url, obj)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        """Lead to the page of the row, which has its history."""
        address = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_change"
        return redirect(f"{reverse(address, args=[object_id])}#history")

    # -- test, and refusals of services ----------------------------------------------------------------------------

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        try:
            response = super().changeform_view(request, object_id, form_url, extra_context)
        except DomainError as error:
            # The transaction is rolled back. The form is shown again, with what was entered and the error.
            request.refusal = error  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)
        form = getattr(request, "tested_form", None)
        if form is not None and isinstance(response, TemplateResponse):
            try:
                answer = self.test(request, form.instance, form.cleaned_data)
            except DomainError as error:
                answer = TestAnswer(False, error.message)
            response.context_data = {**(response.context_data or {}), "test_answer": answer}
        return response

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        is_test = bool(self.test_title) and request.method == "POST" and TEST in request.POST
        refusal: DomainError | None = getattr(request, "refusal", None)
        if not is_test and refusal is None:
            return form

        class UnsavedForm(form):  # type: ignore[misc, valid-type]  # made by Django
            def clean(self) -> Any:
                values = super().clean()
                if refusal is not None:
                    is_known = refusal.field in self.fields
                    text = f"{refusal.fault}; allowed: {refusal.allowed}" if refusal.allowed else refusal.fault
                    self.add_error(refusal.field if is_known else None, text if is_known else refusal.message)
                return values

            def is_valid(self) -> bool:
                if super().is_valid() and is_test:
                    request.tested_form = self  # type: ignore[attr-defined]
                    return False  # so that Django shows the form again instead of saving it
                return bool(super().is_valid())

        return UnsavedForm
