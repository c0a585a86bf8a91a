"""Changesets: list, readable diffs, rollback, resuming, replay and export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from analysis.checks.queries import checks_for
from foundation.downloads.list_export import list_export
from foundation.operations.errors import DomainError
from foundation.operations.fields import UNSTORABLE
from foundation.operations.paging import page
from foundation.people.permissions import caller_from_request
from knowledge.catalog import metadata_files
from knowledge.changesets import approvals, diff, risk, rollback
from knowledge.changesets.apply import get_changeset
from knowledge.changesets.apply import resume as resume_changeset
from knowledge.insights import queries
from knowledge.insights.lifecycle import chain_effects, require_curator
from knowledge.models import ChangesetState, Insight
from memory_project.portal import labels
from memory_project.web.error_labels import message_with_label

COLUMNS = {  # of an exported list
    name: name
    for name in (
        "id", "created_at", "entity_urn", "personas", "catalog", "state", "insight_ids", "applied_by", "finished_at",
        "rolled_back_by", "rolled_back_at", "error",
    )
}  # fmt: skip


@require_safe
@login_required
def changeset_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    entity = UNSTORABLE.sub("", request.GET.get("entity", ""))[:500]
    state = request.GET.get("state", "")
    rows = queries.changesets(caller, entity)
    if state in ChangesetState.values:
        rows = rows.filter(state=state)
    if download := list_export(request, caller, rows, COLUMNS, name="changesets"):
        return download
    current_page = page(rows.prefetch_related("changes"), request.GET.get("after", ""))
    query = {"state": state, "entity": entity, "after": current_page.after}
    context = {
        "page": current_page,
        "states": ChangesetState,
        "state": state,
        "entity": entity,
        "next_page": "?" + urlencode({name: value for name, value in query.items() if value}),
    }
    return render(request, "changesets/list.html", context)


@require_safe
@login_required
def changeset_detail(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    changeset = get_changeset(caller, changeset_id)
    sources = Insight.objects.visible_to(caller).filter(pk__in=changeset.insight_ids).select_related("record")
    checks = checks_for(caller, [insight.pk for insight in sources])
    context = {
        "changeset": changeset,
        "changes": diff.of_changes(changeset.changes.all()),
        "sources": [(insight, checks.get(insight.pk)) for insight in sources],
        "may_curate": queries.may_curate(caller),
        "may_roll_back": changeset.state in ("applied", "partial", "planned"),
        "may_resume": changeset.state in ("partial", "planned"),
        "reasons": risk.in_words(changeset.risks),
        "approvals": changeset.approvals.all() if changeset.risks else [],
        "is_own": changeset.applied_by == caller.email,
    }
    return render(request, "changesets/one.html", context)


@login_required
def roll_back(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    """Show the values that a rollback restores and the values that others have changed since. A POST rolls back."""
    caller = caller_from_request(request, channel="portal")
    require_curator(caller)
    if request.method == "POST":
        try:
            result = rollback.roll_back(
                caller, changeset_id=changeset_id, skip_conflicts="skip_conflicts" in request.POST
            )
        except DomainError as error:
            messages.error(request, message_with_label(error))
            return redirect("roll-back", changeset_id=changeset_id)
        request.session.pop("last_decision", None)  # the “Undo” of the last decision no longer applies
        messages.success(request, " ".join(_rollback_report(result)))
        return redirect("changeset", changeset_id=changeset_id)
    error_text = ""
    try:
        preview = rollback.roll_back_preview(caller, changeset_id=changeset_id)
    except DomainError as error:
        error_text = message_with_label(error)
        preview = rollback.RollBackPreview(get_changeset(caller, changeset_id), [], [])
    context = {
        "changeset": preview.changeset,
        "own_changes": diff.of_changes((undo.change for undo in preview.undos if undo.is_possible), back=True),
        "kept": diff.of_changes(undo.change for undo in preview.undos if undo.is_kept),
        "relying": queries.by_ids(caller, [UUID(pk) for undo in preview.undos for pk in undo.relied_on_by]),
        "conflicts": diff.of_changes((undo.change for undo in preview.undos if not undo.is_ours), back=True),
        "erased": diff.of_changes((undo.change for undo in preview.undos if undo.is_erased), back=True),
        "chains": chain_effects(caller, preview.changeset),
        "used": preview.used,
        "error": error_text,
    }
    return render(request, "changesets/roll_back.html", context)


def _rollback_report(result: rollback.RolledBack) -> Iterator[str]:
    """Yield a sentence for each result of a rollback."""
    count = len(result.reverted)
    text = ngettext("Rolled back: %(count)s value was restored.", "Rolled back: %(count)s values were restored.", count)
    yield text % {"count": count}
    if count := len(result.conflicts):
        yield ngettext(
            "%(count)s value stays, because it can’t be restored.",
            "%(count)s values stay, because they can’t be restored.",
            count,
        ) % {"count": count}
    if count := len(result.kept):
        yield ngettext(
            "%(count)s value stays, because other insights rely on it.",
            "%(count)s values stay, because other insights rely on them.",
            count,
        ) % {"count": count}
    count = result.insights_returned
    text = ngettext("%(count)s insight returned to review.", "%(count)s insights returned to review.", count)
    yield text % {"count": count}
    yield from (f"{usage}." for usage in result.used)


@require_POST
@login_required
def approve(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    notes = request.POST.get("notes", "")
    try:
        applied = approvals.approve(caller, changeset_id=changeset_id, notes=notes)
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect("changeset", changeset_id=changeset_id)
    text = gettext("Approved. The changeset is now: %(state)s.") % {"state": labels.label_of(applied.changeset.state)}
    messages.success(request, text)
    return redirect("changeset", changeset_id=changeset_id)


@require_POST
@login_required
def decline(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    notes = request.POST.get("notes", "")
    try:
        approvals.decline(caller, changeset_id=changeset_id, notes=notes)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Nothing was written. Its insights stay approved and can be applied again."))
    return redirect("changeset", changeset_id=changeset_id)


@require_POST
@login_required
def resume(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    resumed = resume_changeset(caller_from_request(request, channel="portal"), changeset_id=changeset_id)
    text = gettext("The changeset is now: %(state)s.") % {"state": labels.label_of(resumed.changeset.state)}
    messages.info(request, text)
    return redirect("changeset", changeset_id=changeset_id)


@require_POST
@login_required
def replay(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    written_count, present_count = rollback.replay(
        caller_from_request(request, channel="portal"), changeset_id=changeset_id
    )
    written = ngettext("%(count)s value was written again.", "%(count)s values were written again.", written_count)
    present = ngettext("%(count)s value was present.", "%(count)s values were present.", present_count)
    messages.success(request, f"{written % {'count': written_count}} {present % {'count': present_count}}")
    return redirect("changeset", changeset_id=changeset_id)


@require_safe
@login_required
def export(request: HttpRequest, changeset_id: UUID) -> HttpResponse:
    """Download the changeset as a file of MetadataChangeProposals, which DataHub's file source can ingest."""
    changeset = get_changeset(caller_from_request(request, channel="portal"), changeset_id)
    text = json.dumps(metadata_files.as_proposals(changeset.changes.all()), indent=2, ensure_ascii=False)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="changeset-{changeset.pk.hex[:8]}.json"'
    return response
