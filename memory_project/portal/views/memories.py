"""Memory pages: My Knowledge, one memory, and the forms to write and change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from analysis.checks.queries import views_of as check_views
from analysis.checks.services import may_change_checks
from foundation.downloads.list_export import download, is_wanted
from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from foundation.operations.fields import CONTENT_MAX
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import caller_from_request
from knowledge.changesets.traces import traces_of
from knowledge.insights import queries as curation
from knowledge.insights import waiting_edits
from knowledge.operations import Appeal
from knowledge.review import decisions
from memories import queries, services
from memories.history import HistoryEntry, chain, history
from memories.models import Attachment, MemoryRecord, Status, Visibility
from memories.operations import (
    AssignEntities,
    ChooseAttachment,
    DismissEntity,
    Erase,
    Extend,
    Forget,
    MarkFeedback,
    Reassign,
    Remember,
    ReportMemories,
    Restore,
    Revise,
    Share,
    Supersede,
    Verify,
)
from memories.portable_kinds import MEMORY_COLUMNS
from memories.rendering import entity_name
from memories.retrieval.recall import hints_about
from memories.use import attachments, reports
from memories.use.citations import queries as citations
from memories.validity.scopes.choices import choices, labels
from memories.writing import entity_assignment, erasure, feedback, hand_overs, undo, validity
from memories.writing.revision import can_review, last_revision, may_verify
from memories.writing.seen import memory_versions, unchanged, version_after
from memories.writing.verification import last_verifications
from memory_project.portal import onboarding
from memory_project.portal.form_fields import posted
from memory_project.portal.forms import MemoryForm, MoveForm, ShareForm
from memory_project.portal.memory_history import shown_changes
from memory_project.portal.memory_list import Browse
from memory_project.portal.pages.default_views import default_view
from memory_project.portal.redirects import local_page
from memory_project.portal.search import saved_views
from memory_project.portal.undo_messages import undo_tag
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label


@require_safe
@login_required
def my_knowledge(request: HttpRequest) -> HttpResponseBase:
    browse = Browse.of(caller_from_request(request, channel="portal"), request.GET)
    if is_wanted(request):
        return download(request, browse.caller, browse.rows(), MEMORY_COLUMNS, name="memories")
    is_fragment = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    default = None if is_fragment else default_view(browse.caller, "my-knowledge")
    if default and not request.GET:
        return HttpResponseRedirect(saved_views.address_of(default))
    template = "portal/_results.html" if is_fragment else "portal/my_knowledge.html"
    context: dict[str, Any] = {"browse": browse, "result": browse.result()}
    if browse.q and not request.session.get(onboarding.SEARCHED):
        request.session[onboarding.SEARCHED] = True
    if not is_fragment:
        context |= {"default": default, "first_steps": onboarding.steps(request, browse.caller)}
    response = render(request, template, context)
    if is_fragment:
        response["HX-Push-Url"] = browse.address  # the address without empty filters, which can be saved as a view
    return response


@require_POST
@login_required
def close_first_run(request: HttpRequest) -> HttpResponse:
    request.session[onboarding.CLOSED] = True
    return redirect("my-knowledge")


@require_POST
@login_required
def diff(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Render what a correction changes, while the user is typing it."""
    record = queries.get(caller_from_request(request, channel="portal"), record_id)
    return render(
        request,
        "portal/_diff.html",
        {"before": record.content, "after": request.POST.get("content", "")[: CONTENT_MAX + 1]},
    )


@require_safe
@login_required
def memory(request: HttpRequest, record_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    record = queries.get(caller, record_id, **queries.HAS_REPORTS, **citations.HAS_CITATIONS)
    versions = chain(caller, record)
    verdicts, own_feedback = feedback.feedback_for(caller, record)
    insight = curation.insight_of(caller, record)
    may_review = can_review(caller, record)
    may_change = caller.can_edit_for(record.created_by)
    changes = history(caller, record, versions)
    traces = traces_of(caller, [link.pk for link in versions]) if insight or len(versions) > 1 else []
    is_approved = insight is not None and insight.state in waiting_edits.IN_FORCE
    context = {
        "record": record,
        "insight": insight,
        "decisions": list(insight.decisions.all()) if insight else [],
        "verdicts": verdicts,
        "use": attachments.usage_of(caller, record),
        "reports": reports.reports_about(caller, record),
        "citing": citations.citing(caller, record),
        "useful": feedback.useful_count(record, verdicts),
        "reads_changeset": insight is not None and insight.changeset_id in {trace.changeset.pk for trace in traces},
        "traces": traces,
        "own_word": own_feedback,
        "mark_counts": feedback.counts_for_others(caller, record),
        "versions": versions,
        "history": changes,
        "changes": shown_changes(changes, versions),
        "is_asked": entity_assignment.is_asked(caller, record),
        "offer": entity_assignment.offer(caller, [record]),
        "is_settled_now": may_change and has_just_assigned(caller, changes),
        "hint": hints_about([record.pk]).get(record.pk, ""),
        "seen": _version(record, changes, knows_all=may_change),
        "verification": last_verifications([record.pk]).get(record.pk) if record.last_verified_at else None,
        "may_change": may_change,
        "may_extend": validity.may_extend(caller, record),
        "holds_for": labels([record.scope]).get(record.scope, ""),
        "checks": check_views(caller, record),
        "may_check": may_change_checks(caller, record, is_approved=is_approved),
        "share_form": ShareForm(record),
        "move_form": MoveForm(_other_personas(caller, record)),
        "can_review": may_review,
        "may_verify": not may_review and record.status == Status.ACTIVE and may_verify(caller, record),
        "successor": next((version for version in versions if record.superseded_by == version.pk), None),
    }
    return render(request, "portal/memory.html", context)


def has_just_assigned(caller: Caller, changes: list[HistoryEntry]) -> bool:
    """Return whether the caller has just settled what the memory is about, so that it can be undone."""
    return bool(changes) and changes[0].change == "settle" and changes[0].by == caller.email


def _version(record: MemoryRecord, changes: list[HistoryEntry], *, knows_all: bool) -> str:
    """Return the token of the memory's state. Owners and admins see all revisions, so they need no query for it."""
    if not knows_all:
        return memory_versions([record])[record.pk]
    return version_after(record, [change.revision for change in changes if change.record_id == record.pk])


@login_required
def create_memory(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    initial = {"content": request.GET.get("content", ""), "entity_urns": request.GET.get("entity", "")}
    form = MemoryForm(request.POST or None, initial=initial, scopes=choices(caller))
    if request.method == "POST" and form.is_valid():
        try:
            result = services.remember(caller, Remember.read({**form.values()}))
        except Invalid as error:
            form.refuse(error)
        else:
            _report(request, result)
            return redirect("memory", record_id=result.record.pk)
    return render(
        request, "portal/memory_form.html", {"form": form, "title": gettext("New memory"), "verb": gettext("Remember")}
    )


@login_required
def edit_memory(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Edit a memory in place, or correct it: a correction replaces the memory and keeps the old text.

    If the memory has changed since the form was opened, the form is shown again with what was typed, and saving it once
    more is a decision about the memory as it is now.
    """
    caller = caller_from_request(request, channel="portal")
    record = queries.get(caller, record_id)
    correcting = "correct" in (request.POST or request.GET)
    if not (can_review(caller, record) if correcting else caller.can_edit_for(record.created_by)):
        raise Forbidden(gettext("This memory belongs to another user: only its owner or an admin can change it."))
    wanted = record if correcting else waiting_edits.as_edited(caller, record)
    form = MemoryForm(request.POST or None, initial=_initial(wanted), scopes=choices(caller, record), new=False)
    # A curator corrects another person's memory, whose owner chooses the readers.
    form.fields["visibility"].disabled = not caller.can_edit_for(record.created_by)
    if request.method == "POST" and form.is_valid():
        try:
            with unchanged(caller, record_id, request.POST.get("seen", "")):
                target = _save(caller, wanted, form, correcting)
        except (Invalid, Conflict) as error:
            record = queries.get(caller, record_id)
            form.refuse(Invalid(error.fault, field=error.field, allowed=error.allowed))
        else:
            message = gettext("Corrected. The old text is kept in the history.") if correcting else gettext("Saved.")
            if note := target.pending_message or target.edit_note:
                messages.success(request, f"{note[0].upper()}{note[1:]}.")
            elif correcting:
                messages.success(request, message, extra_tags=undo_tag(record_id, "supersede"))
            else:
                messages.success(request, message)
            is_readable = MemoryRecord.objects.visible_to(caller).filter(pk=target.pk).exists()
            return redirect("memory", record_id=target.pk if is_readable else record_id)
    title = gettext("Correct memory") if correcting else gettext("Edit memory")
    verb = gettext("Save correction") if correcting else gettext("Save")
    context = {"form": form, "record": record, "title": title, "verb": verb, "correcting": correcting}
    context["seen"] = memory_versions([record])[record.pk]
    context["waits"] = wanted is not record
    context["has_checks"] = correcting and bool(check_views(caller, record))
    return render(request, "portal/memory_form.html", context)


@require_POST
@login_required
def change_memory(request: HttpRequest, record_id: UUID, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    if act not in ACTS:
        raise NotFound(gettext("%(act)r is not a known action") % {"act": act})
    try:
        before = last_revision(record_id)
        with unchanged(caller, record_id, request.POST.get("seen", "")):
            message = ACTS[act](caller, record_id, request)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        # An act may have changed nothing, or wait for a curator.
        can_undo = act in UNDOABLE and last_revision(record_id) != before
        messages.success(request, message, extra_tags=undo_tag(record_id, act) if can_undo else "")
    if act == "erase" and not MemoryRecord.objects.visible_to(caller).filter(pk=record_id).exists():
        return redirect("my-knowledge")
    if page := local_page(request.POST.get("next") or request.POST.get("back_to", "")):
        return HttpResponseRedirect(page)
    return redirect("memory", record_id=record_id)


def _forget(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    services.forget(caller, posted(Forget, request, "reason", record_id=record_id))
    return gettext("Forgotten. The memory is kept, but it is no longer recalled.")


def _restore(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    services.restore(caller, Restore(record_id=record_id))
    return gettext("Restored. The memory is recalled again.")


def _verify(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    services.verify(caller, posted(Verify, request, "reason", record_id=record_id))
    return gettext("Verified as still true.")


def _share(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    record = services.share(caller, posted(Share, request, "visibility", record_id=record_id))
    if record.visibility == Visibility.PRIVATE:
        return gettext("Only its owner may read the memory now.")
    if record.visibility == Visibility.EVERYONE:
        return gettext("Everyone may read the memory now.")
    return gettext("The persona %(persona)s may read the memory now.") % {"persona": record.persona}


def _reassign(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    record = services.reassign(caller, posted(Reassign, request, "persona", record_id=record_id))
    return gettext("Moved to the persona %(persona)s.") % {"persona": record.persona}


def _other_personas(caller: Caller, record: MemoryRecord) -> list[Persona]:
    if not caller.can_edit_for(record.created_by):
        return []
    if not caller.is_admin and not caller.personas - {record.persona}:
        return []
    rows = Persona.objects.exclude(name=record.persona)
    return list(rows if caller.is_admin else rows.filter(name__in=caller.personas))


def _extend(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    record = validity.extend(caller, posted(Extend, request, "by", record_id=record_id))
    if record.pending_message:
        return f"{record.pending_message[0].upper()}{record.pending_message[1:]}."
    if record.valid_until is None:
        return gettext("Extended. The memory has no end.")
    return gettext("Extended. The memory is valid until %(day)s.") % {"day": locale.day(record.valid_until)}


def _attach(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    record = services.choose_attachment(caller, posted(ChooseAttachment, request, "attachment", record_id=record_id))
    if record.attachment == Attachment.ALWAYS:
        return gettext("The memory is always attached from now on.")
    if record.attachment == Attachment.NEVER:
        return gettext("The memory is attached on request only.")
    return gettext("The memory is attached again, and its use is counted anew.")


def _dismiss_entity(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    services.dismiss_entity(caller, posted(DismissEntity, request, "urn", record_id=record_id))
    return gettext("Removed. The entity is not detected in this memory again.")


def _settle(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    """Settle with a button (`about`: a URN and a column, or NOTHING) or with entities that were typed."""
    urn, _, column = request.POST.get("about", "").partition(" ")
    names = [line for line in request.POST.get("entity_urns", "").splitlines() if line.strip()]
    if not urn and not names:
        raise Invalid(
            gettext("is missing"), field="entity_urns", allowed=gettext("an entity, or the button for no entity")
        )
    columns = [{"urn": urn, "column": column, "relevance": gettext("the text names it")}] if column else []
    entities = [urn] if urn else names
    if urn == NOTHING:
        entities = []
    operation = AssignEntities.read({"id": record_id, "entity_urns": entities, "related_columns": columns})
    record = entity_assignment.assign_entities(caller, operation)
    if record.pending_message:
        return gettext("Your answer waits for a curator, because the memory is approved.")
    if not record.entity_urns:
        return gettext("It is about nothing in the catalog.")
    about = ", ".join(map(entity_name, record.entity_urns))
    return gettext("It is about %(names)s.") % {"names": about}


def _erase(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    is_confirmed = request.POST.get("confirm") == "erase"
    erased = erasure.erase(caller, Erase.read({"record_id": record_id, "confirm": is_confirmed}))
    sentences = [gettext("Permanently erased.")]
    if erased.removed:
        sentences.append(gettext("Removed with it: %(list)s.") % {"list": hand_overs.describe(erased.removed)})
    if erased.same_words:
        text = gettext(
            "Other texts that you can read have the same words: %(list)s."
            " They are no copies of the memory, so they stay."
        )
        sentences.append(text % {"list": hand_overs.describe(erased.same_words)})
    return " ".join(sentences)


def _useful(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    feedback.mark(caller, MarkFeedback(record_id=record_id, verdict="useful"))
    return gettext("Thank you. Marked as useful.")


def _wrong(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    mark = feedback.mark(caller, posted(MarkFeedback, request, "reason", record_id=record_id, verdict="wrong"))
    if not mark.counts:
        return gettext(
            "Marked as wrong. The memory is no longer recalled for you. Nothing changes for its other readers."
        )
    stale = queries.get(caller, record_id).status == Status.STALE
    if stale:
        return gettext("Marked as wrong. The memory is not recalled until it has been reviewed.")
    return gettext("Marked as wrong. The memory is no longer recalled for you, and its owner is asked to review it.")


def _withdraw(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    feedback.withdraw(caller, record_id=record_id)
    return gettext("Your feedback was withdrawn.")


def _withdraw_reports(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    reports.report(caller, ReportMemories(withdraw=[record_id]))
    return gettext("Your agents’ reports were withdrawn.")


def _undo(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    undo.undo(caller, record_id=record_id, change=request.POST.get("change", ""))
    return gettext("Undone.")


def _appeal(caller: Caller, record_id: UUID, request: HttpRequest) -> str:
    decisions.appeal(caller, Appeal.read({"insight_id": record_id, "notes": request.POST.get("reason", "")}))
    return gettext("Appealed. A curator will review it again, with your reason.")


UNDOABLE = ("forget", "restore", "verify", "settle", "share", "reassign", "extend")  # the message offers it
NOTHING = "nothing"  # value of the button that says that a memory is about nothing in the catalog
ACTS: dict[str, Callable[[Caller, UUID, HttpRequest], str]] = {
    "forget": _forget,
    "restore": _restore,
    "verify": _verify,
    "share": _share,
    "reassign": _reassign,
    "extend": _extend,
    "attach": _attach,
    "dismiss-entity": _dismiss_entity,
    "settle": _settle,
    "erase": _erase,
    "useful": _useful,
    "wrong": _wrong,
    "withdraw": _withdraw,
    "withdraw-reports": _withdraw_reports,
    "undo": _undo,
    "appeal": _appeal,
}


def _initial(record: MemoryRecord) -> dict[str, Any]:
    names = ("content", "dimension", "category", "confidence", "visibility", "scope")
    initial = {name: getattr(record, name) for name in names}
    initial |= {"valid_while": record.valid_while}
    initial |= {name: MemoryForm.day_of(getattr(record, name)) for name in ("valid_from", "valid_until")}
    return initial | {"tags": ", ".join(record.tags), "entity_urns": "\n".join(record.entity_urns)}


def _save(caller: Caller, record: MemoryRecord, form: MemoryForm, correcting: bool) -> MemoryRecord:
    values = form.values()
    for name in ("valid_from", "valid_until", "valid_while"):
        if name not in form.changed_data:  # a bound may have a time of day, which the form does not show
            del values[name]
    if values["scope"] == record.scope:
        del values["scope"]  # it may have been removed since; a correction inherits it
    if correcting:
        values["keep_checks"] = "keep_checks" in form.data
        result = services.supersede(caller, Supersede.read({"record_id": record.pk, **values}))
        # A correction without a predecessor awaits review before it replaces the memory. Its note says so.
        result.record.pending_message = result.note if result.record.supersedes_id is None else ""
        return result.record
    reason = values.pop("reason")
    changed = {name: value for name, value in values.items() if value != getattr(record, name)}
    if not changed and record.status == Status.ACTIVE:
        return record
    return services.revise(caller, Revise.read({"record_id": record.pk, "reason": reason, **(changed or values)}))


def _report(request: HttpRequest, result: services.Remembered) -> None:
    if result.existing:
        messages.info(request, gettext("This text is already remembered as this memory."))
        if result.record.validity:
            messages.warning(
                request, gettext("It is not recalled, because it is not valid now. Extend it if it is true.")
            )
        return
    messages.success(request, gettext("Remembered."))
    if result.similar:
        closest = result.similar[0]
        text = gettext("Closest existing memory (%(similar)s similar): “%(memory)s”. Correct one of the two?")
        messages.warning(request, text % {"similar": f"{closest.cosine:.0%}", "memory": closest.record})
    if result.note:
        messages.warning(request, result.note)
