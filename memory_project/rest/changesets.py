"""Changesets: plan, apply, resume and roll back."""

from __future__ import annotations

import django_filters
from django.db.models import Q

from foundation.operations.fields import Id
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from knowledge import responses
from knowledge.changesets.apply import get_changeset
from knowledge.insights.lifecycle import require_curator
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Changeset, ChangesetState
from knowledge.models.changeset import ChangesetQuerySet
from knowledge.responses import ChangesetResponse
from memory_project.rest.endpoints import Endpoint, of_tool, route
from memory_project.rest.lists import EntityFilter, Listing, each

TAG = "changesets"
HIDDEN = ("confirm", "dry_run")  # planning and writing have addresses of their own
PLAN = {"fixed": {"dry_run": True}, "hidden": HIDDEN, "reads": True}
WRITE = {"fixed": {"confirm": True, "dry_run": False}, "hidden": HIDDEN}


class ChangesetFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=ChangesetState.choices)
    entity_urn = EntityFilter(lambda urn: Q(entity_urn=urn))
    applied_by = django_filters.CharFilter(help_text="E-mail address of the curator.")
    created_after = django_filters.IsoDateTimeFilter("created_at", "gte")
    created_before = django_filters.IsoDateTimeFilter("created_at", "lte")


class ShowChangeset(Operation):
    """Show a changeset with its changes"""

    changeset_id: Id


def _rows(caller: Caller) -> ChangesetQuerySet:
    require_curator(caller)
    return Changeset.objects.visible_to(caller)


def _show(caller: Caller, operation: ShowChangeset) -> ChangesetResponse:
    require_curator(caller)
    changeset = get_changeset(caller, operation.changeset_id)
    return responses.changeset_response(changeset, list(changeset.changes.all()))


LIST = Listing(
    "list_changesets",
    _rows,
    each(responses.changeset_response),
    ChangesetResponse,
    ChangesetFilter,
    "apply_knowledge",
    "list_changesets",
    summary="List changesets",
)
SHOW = Endpoint("show_changeset", _show, "apply_knowledge", "list_changesets")

urlpatterns = [
    route(TAG, "changesets/", get=LIST, post=of_tool(apply_knowledge, "apply", "apply_changes", status=201, **WRITE)),
    route(TAG, "changesets/plan/", post=of_tool(apply_knowledge, "apply", "plan_changes", **PLAN)),
    route(TAG, "changesets/<id:changeset_id>/", get=SHOW),
    route(TAG, "changesets/<id:changeset_id>/resume/", post=of_tool(apply_knowledge, "resume", "resume_changeset")),
    route(
        TAG,
        "changesets/<id:changeset_id>/approve/",
        post=of_tool(apply_knowledge, "approve_changeset", "approve_changeset"),
    ),
    route(
        TAG,
        "changesets/<id:changeset_id>/decline/",
        post=of_tool(apply_knowledge, "decline_changeset", "decline_changeset"),
    ),
    route(
        TAG, "changesets/<id:changeset_id>/roll-back/", post=of_tool(apply_knowledge, "rollback", "roll_back", **WRITE)
    ),
    route(
        TAG,
        "changesets/<id:changeset_id>/roll-back/plan/",
        post=of_tool(apply_knowledge, "rollback", "plan_roll_back", **PLAN),
    ),
    route(
        TAG,
        "changesets/<id:changeset_id>/proposals/",
        get=of_tool(apply_knowledge, "export_changeset", "export_changeset"),
    ),
]
