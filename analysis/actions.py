"""Bulk updates and deletions of upstream records: dry run, confirmation, execution and resumption.

Each record is marked as started before its request is sent. When an interrupted action is resumed, the records that are
marked as started are read from the upstream. A record counts as done if it has the requested values or, for a deletion,
no longer exists. If the record is unchanged, the request is sent again. Otherwise the record's outcome is unknown, and
a person has to check it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.core import signing
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from analysis import records, sessions, sources
from analysis.action_execution import ActionResult, deliver, is_interrupted
from analysis.models import Action, ActionState, Session
from analysis.operations import RunAction
from analysis.querying.query import QueryScope, run, scope, uncastable
from analysis.sources import SourceModel
from analysis.sources.attribute_values import check_value
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.work import jobs
from foundation.work.jobs import JobKind

MAX_UNCONFIRMED = 50  # changing more records than this requires the token of a dry run
TOKEN_HOURS = 1
ATTRIBUTES_BYTES = 64_000
SAMPLE_IDS, SAMPLE_ROWS = 10, 3
SALT = "analysis.act"


@dataclass(frozen=True)
class ActionPreview:
    matched: int
    sample_ids: list[str]
    sample_data: list[dict[str, Any]]
    earliest: Any
    latest: Any
    confirm: str  # the token that confirms the change of these records; "" if there are none
    without_id: int = 0
    interrupted: list[Action] = field(default_factory=list)
    uncastable: dict[str, int] = field(default_factory=dict)
    digest: dict[str, Any] = field(default_factory=dict)  # what the token holds


@dataclass(frozen=True)
class UpstreamRequest:
    session: Session
    model: SourceModel
    kind: str
    attributes: dict[str, Any]
    where: dict[str, Any]
    scope: QueryScope


def dry_run(caller: Caller, operation: RunAction) -> ActionPreview:
    """Return what an action would change, without calling the upstream.

    The preview holds the number and samples of the matching records, the times of the oldest and the newest ingested
    copy, a confirmation token, and the caller's interrupted actions on the model.
    """
    request = _checked(caller, operation)
    base, params = request.scope.sql()
    ((matched, without_id, earliest, latest),) = run(
        f"SELECT count(*) FILTER (WHERE has_id), count(*) FILTER (WHERE NOT has_id), min(ingested_at), "
        f"max(ingested_at) {base}",
        params,
    )
    rows = run(f"SELECT record_id, data, ingested_at {base} AND has_id ORDER BY id LIMIT %s", [*params, SAMPLE_IDS])
    data = [{**json.loads(data), "ingestedAt": at.isoformat()} for _, data, at in rows[:SAMPLE_ROWS]]
    digest = _digest(caller, request, _ids(request))
    token = signing.dumps(digest, salt=SALT) if matched else ""
    return ActionPreview(
        matched,
        [record_id for record_id, _, _ in rows],
        data,
        earliest,
        latest,
        token,
        without_id,
        interrupted(caller, request.session, request.model.name),
        uncastable(request.scope),
        digest,
    )


def act(caller: Caller, operation: RunAction) -> ActionResult:
    """Update or delete, upstream, every matching record that has an id.

    Raises Invalid if the confirmation token is not valid, or is missing although it is required. Raises Conflict if
    the request, the matching ids or the interrupted actions differ from those of the dry run. Without a token, raises
    Conflict if an earlier action was interrupted, because starting over would repeat its requests.
    """
    as_user = sessions.acting_for(caller, operation.user_id)
    request = _checked(caller, operation)
    ids = _ids(request)
    if len(ids) > MAX_UNCONFIRMED or operation.confirm:
        _require_confirmed(caller, request, ids, operation.confirm)
    elif unfinished := interrupted(caller, request.session, request.model.name):
        hint = gettext("resume it with action_id, which repeats nothing that succeeded")
        raise Conflict(
            gettext("an earlier action, %(action)s, was interrupted: %(hint)s")
            % {"action": unfinished[0].pk.hex, "hint": hint},
            field="action_id",
        )
    with closing(sources.open_upstream(caller, request.model, as_user=as_user)) as upstream:
        with transaction.atomic():
            action = Action.objects.create(
                owner=caller.email,
                on_behalf_of=as_user,
                analysis_id=request.session.analysis_id,
                model=request.model.name,
                kind=request.kind,
                attributes=request.attributes,
                where=request.where,
                revalidate=operation.revalidate,
            )
            _plan(action, request, ids)
        return deliver(action, upstream, request.session)


def resume(caller: Caller, *, action_id: UUID | str) -> ActionResult:
    """Continue an action that was interrupted, or that left records with a failed or unknown outcome.

    Requests of records that succeeded or drifted are not sent again.
    """
    action = _unfinished(caller, action_id)
    model = _writable(caller, action.model)
    session = Session.objects.filter(owner=action.owner, analysis_id=action.analysis_id).first()
    with closing(sources.open_upstream(caller, model, as_user=action.on_behalf_of)) as upstream:
        return deliver(action, upstream, session, retry=True)


def interrupted(caller: Caller, session: Session, model: str) -> list[Action]:
    running = Action.objects.owned_by(caller).filter(
        analysis_id=session.analysis_id, model=model, state=ActionState.RUNNING
    )
    return [action for action in running[:20] if is_interrupted(action)]


def resume_later(caller: Caller, *, action_id: UUID | str) -> Action:
    """Queue the action for a worker, which resumes it with the permissions that its owner has at that time."""
    action = _unfinished(caller, action_id)
    if action.state != ActionState.RUNNING or is_interrupted(action):
        with transaction.atomic():
            action.state = ActionState.QUEUED
            action.save(update_fields=["state"])
            jobs.add(ActionJobs.name, action.pk, action.owner)
    return action


def _unfinished(caller: Caller, action_id: UUID | str) -> Action:
    """Return the caller's own action.

    Raises NotFound if the caller owns no such action, Conflict if the action is done, and Forbidden if it acts for
    another user and the caller may not act for other users.
    """
    action = get_action(caller, action_id)
    if action.owner != caller.email:
        raise NotFound(gettext("no such action of yours"), field="action_id")
    if action.state == ActionState.DONE:
        raise Conflict(gettext("is done: there is nothing to resume"), field="action_id")
    sessions.acting_for(caller, action.on_behalf_of)
    return action


class ActionJobs(JobKind[Action]):
    """Actions that a person has resumed. Each is resumed in one turn, so that what fails is tried once."""

    name = "action"
    is_long = True

    def unfinished(self) -> QuerySet[Action]:
        return Action.objects.filter(state__in=[ActionState.QUEUED, ActionState.RUNNING])

    def owner_of(self, row: Action) -> str:
        return row.owner

    def persona_of(self, row: Action) -> str:
        return ""

    def is_worked_on(self, row: Action) -> bool:
        return row.state == ActionState.RUNNING  # by the call that has started it; a person resumes it if that ended

    def slices(self, caller: Caller, row: Action) -> Generator[object, None, None]:
        yield resume(caller, action_id=row.pk)

    def fail(self, row: Action, reason: str) -> None:
        Action.objects.filter(pk=row.pk).update(state=ActionState.PARTIAL, finished_at=timezone.now())


def get_action(caller: Caller, action_id: UUID | str) -> Action:
    pk = validate(Id, action_id, "action_id")
    action = Action.objects.visible_to(caller).filter(pk=pk).first()
    if action is None:
        raise NotFound(gettext("no such action of yours"), field="action_id")
    return action


# -- validation and confirmation ---------------------------------------------------------------------------


def _checked(caller: Caller, operation: RunAction) -> UpstreamRequest:
    model = _writable(caller, operation.model)
    attributes = _checked_attributes(model, dict(operation.attributes or {})) if operation.action == "update" else {}
    session = sessions.get_session(caller, operation.analysis_id)
    models = sessions.names_of_models(session)
    if model.name not in models:
        raise NotFound(
            gettext("this analysis has no %(model)s records: run analysis_ingest first") % {"model": operation.model},
            field="model",
            allowed=", ".join(models),
        )
    return UpstreamRequest(
        session,
        model,
        operation.action,
        attributes,
        dict(operation.where or {}),
        scope(session, model.name, operation.where),
    )


def has_writable_models(caller: Caller) -> bool:
    models = sources.readable_models(caller).values()
    return any(model.source and not model.resource.read_only and model.is_writable_by(caller) for model in models)


def _writable(caller: Caller, model: str) -> SourceModel:
    source_model = sources.get_source_model(caller, model)
    if source_model.resource.read_only or source_model.source is None:
        raise Invalid(
            gettext("The %(model)r model is read-only and cannot be modified") % {"model": model}, field="model"
        )
    if not source_model.is_writable_by(caller):
        allowed = ", ".join(source_model.source.act_personas) or "only admins, since the source lists no act_personas"
        raise Forbidden(gettext("can't be changed with your personas"), field="model", allowed=allowed)
    return source_model


def _checked_attributes(model: SourceModel, values: dict[str, Any]) -> dict[str, Any]:
    if not values:
        raise Invalid(gettext("is missing"), field="attributes", allowed=gettext("an object with the values to set"))
    declared = model.resource.attributes
    for name, value in values.items():
        attribute = declared.get(name)
        if declared and attribute is None:
            allowed = ", ".join(sorted(key for key, declaration in declared.items() if declaration.writable))
            raise Invalid(gettext("is not declared"), field=f"attributes.{name}", allowed=allowed)
        if attribute and not attribute.writable:
            raise Invalid(gettext("is read-only"), field=f"attributes.{name}")
        if attribute:
            check_value(f"attributes.{name}", attribute, value)
    values = {name: records.clean(value) for name, value in values.items()}
    if len(json.dumps(values)) > ATTRIBUTES_BYTES:
        raise Invalid(
            gettext("is too large"),
            field="attributes",
            allowed=gettext("at most %(attributes_bytes)s bytes") % {"attributes_bytes": ATTRIBUTES_BYTES},
        )
    return values


def _ids(request: UpstreamRequest) -> list[str]:
    base, params = request.scope.sql()
    return [record_id for (record_id,) in run(f"SELECT record_id {base} AND has_id ORDER BY id", params)]


def _digest(caller: Caller, request: UpstreamRequest, ids: Sequence[str]) -> dict[str, Any]:
    """Return what a confirmation token holds: a digest of the request, its record ids and interrupted actions."""
    unfinished = [action.pk.hex for action in interrupted(caller, request.session, request.model.name)]
    text = json.dumps([request.kind, request.attributes, request.where, list(ids), unfinished], sort_keys=True)
    return {
        "session": request.session.pk,
        "model": request.model.name,
        "sha": hashlib.sha256(text.encode()).hexdigest(),
    }


def _require_confirmed(caller: Caller, request: UpstreamRequest, ids: Sequence[str], confirm: str) -> None:
    if not confirm:
        raise Invalid(
            gettext("is missing, so nothing was changed: %(count)s records match; show the person a dry run first")
            % {"count": len(ids)},
            field="confirm",
            allowed=gettext("the token of a dry run, which is needed for more than %(max_unconfirmed)s records")
            % {"max_unconfirmed": MAX_UNCONFIRMED},
        )
    try:
        confirmed = signing.loads(confirm, salt=SALT, max_age=TOKEN_HOURS * 3600)
    except signing.BadSignature:
        raise Invalid(
            gettext("is not a valid token, or is older than an hour"),
            field="confirm",
            allowed=gettext("the token of a dry run"),
        ) from None
    if confirmed != _digest(caller, request, ids):
        raise Conflict(
            gettext(
                "belongs to another dry run: the request, its records or the interrupted actions "
                "differ; do a new dry run"
            ),
            field="confirm",
        )


def _plan(action: Action, request: UpstreamRequest, ids: Sequence[str]) -> None:
    """Save an item for each record, with a snapshot of its ingested copy.

    Revalidation and resumption compare the upstream's record with the snapshot.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO analysis_action_items (action_id, record_id, before, outcome, error) "
            "SELECT %s, record_id, data, 'planned', '' FROM ingested_records "
            "WHERE session_id = %s AND model = %s AND record_id = ANY(%s) ORDER BY id",
            [action.pk, request.session.pk, request.model.name, list(ids)],
        )
