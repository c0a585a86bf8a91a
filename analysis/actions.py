"""Bulk changes of an upstream's records: resolved here, done there, each outcome kept.

Every record's intent is saved before its request is sent. After a kill, a record whose outcome is unknown is read
from the upstream: as asked for, it is done; as before, it is sent again; otherwise it is left for a person.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.core import signing
from django.db import connection, transaction
from django.db.models import Count
from django.utils import timezone

from analysis import records, sessions, sources
from analysis.models import Action, ActionItem, ActionState, IngestedRecord, Outcome, Session
from analysis.query import Scope, run, scope, uncastable
from analysis.sources import Known
from analysis.sources.port import Upstream, UpstreamFailed
from memories import locks, progress, validation
from memories.access import Caller
from memories.errors import Conflict, Invalid, NotFound, check_choice

KINDS = ("update", "delete")
BATCH = 50  # records in one round: their intents are saved together
UNCONFIRMED_MOST = 50  # more records than that need the token of a dry run
TOKEN_HOURS = 1
ATTRIBUTES_BYTES = 64_000
SAMPLE_IDS, SAMPLE_ROWS, ERRORS_SHOWN = 10, 3, 5
SALT = "analysis.act"


@dataclass(frozen=True)
class Preview:
    """What an action would touch. `confirm` is asked for when it is many."""

    matched: int
    sample_ids: list[str]
    sample_data: list[dict[str, Any]]
    earliest: Any
    latest: Any
    confirm: str
    without_id: int = 0
    uncastable: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Acted:
    action: Action
    counts: dict[str, int]
    errors: list[ActionItem] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True)
class Request:
    """What was asked, checked."""

    session: Session
    known: Known
    kind: str
    attributes: dict[str, Any]
    where: dict[str, Any]
    scope: Scope


def dry_run(
    *,
    caller: Caller,
    analysis_id: str,
    model: str,
    action: str,
    attributes: Mapping[str, Any] | None = None,
    where: Mapping[str, Any] | None = None,
) -> Preview:
    """The scope and the age of the snapshot, without a call to the upstream."""
    asked = _checked(caller, analysis_id, model, action, attributes, where)
    base, params = asked.scope.sql()
    ((matched, without, earliest, latest),) = run(
        f"SELECT count(*) FILTER (WHERE has_id), count(*) FILTER (WHERE NOT has_id), min(ingested_at), "
        f"max(ingested_at) {base}",
        params,
    )
    rows = run(f"SELECT record_id, data, ingested_at {base} AND has_id ORDER BY id LIMIT %s", [*params, SAMPLE_IDS])
    data = [{**json.loads(data), "ingestedAt": at.isoformat()} for _, data, at in rows[:SAMPLE_ROWS]]
    token = signing.dumps(_digest(asked, _ids(asked)), salt=SALT) if matched else ""
    return Preview(
        matched,
        [record_id for record_id, _, _ in rows],
        data,
        earliest,
        latest,
        token,
        without,
        uncastable(asked.scope),
    )


def act(
    *,
    caller: Caller,
    analysis_id: str,
    model: str,
    action: str,
    attributes: Mapping[str, Any] | None = None,
    where: Mapping[str, Any] | None = None,
    confirm: str = "",
    revalidate: bool = False,
    user_id: str = "",
) -> Acted:
    """Changes every matching record upstream. Raises Conflict when the confirmed records are not those any more."""
    as_user = sessions.acting_for(caller, user_id)
    asked = _checked(caller, analysis_id, model, action, attributes, where)
    ids = _ids(asked)
    if len(ids) > UNCONFIRMED_MOST or confirm:
        _require_confirmed(asked, ids, confirm)
    with closing(sources.open_upstream(caller, asked.known, as_user=as_user)) as upstream:
        with transaction.atomic():
            made = Action.objects.create(
                owner=caller.email,
                on_behalf_of=as_user,
                analysis_id=asked.session.analysis_id,
                model=asked.known.name,
                kind=asked.kind,
                attributes=asked.attributes,
                where=asked.where,
                revalidate=revalidate,
            )
            _plan(made, asked, ids)
        return _carry_out(made, upstream, asked.session)


def resume(*, caller: Caller, action_id: UUID | str) -> Acted:
    """Goes on with an action that was interrupted, or whose records failed. What is done is not done again."""
    made = find(caller, action_id)
    if made.owner != caller.email:
        raise NotFound("no such action of yours", field="action_id")
    if made.state == ActionState.DONE:
        raise Conflict("is done: there is nothing to resume", field="action_id")
    sessions.acting_for(caller, made.on_behalf_of)
    known = _writable(made.model)
    session = Session.objects.filter(owner=made.owner, analysis_id=made.analysis_id).first()
    with closing(sources.open_upstream(caller, known, as_user=made.on_behalf_of)) as upstream:
        return _carry_out(made, upstream, session, again=True)


def find(caller: Caller, action_id: UUID | str) -> Action:
    pk = validation.clean_id(action_id, "action_id")
    made = Action.objects.visible_to(caller).filter(pk=pk).first()
    if made is None:
        raise NotFound("no such action of yours", field="action_id")
    return made


# -- what is asked -----------------------------------------------------------------------------------------


def _checked(
    caller: Caller,
    analysis_id: str,
    model: str,
    action: str,
    attributes: Mapping[str, Any] | None,
    where: Mapping[str, Any] | None,
) -> Request:
    kind = check_choice("action", action, KINDS)
    known = _writable(model)
    cleaned = _attributes(known, dict(attributes or {})) if kind == "update" else {}
    session = sessions.find(caller, analysis_id)
    held = sessions.names_of_models(session)
    if known.name not in held:
        raise NotFound(f"no {model} records here: run analysis_ingest first", field="model", allowed=", ".join(held))
    return Request(session, known, kind, cleaned, dict(where or {}), scope(session, known.name, where))


def _writable(model: str) -> Known:
    known = sources.find(model)
    if known.resource.read_only or known.source is None:
        raise Invalid(f"The {model!r} model is read-only and cannot be modified", field="model")
    return known


def _attributes(known: Known, given: dict[str, Any]) -> dict[str, Any]:
    """Checked against the declaration, as far as there is one."""
    if not given:
        raise Invalid("is missing", field="attributes", allowed="an object of what to set, for update")
    given = {name: records.clean(value) for name, value in given.items()}
    if len(json.dumps(given)) > ATTRIBUTES_BYTES:
        raise Invalid("is too long", field="attributes", allowed=f"at most {ATTRIBUTES_BYTES} bytes")
    declared = known.resource.attributes
    for name, value in given.items():
        one = declared.get(name)
        if declared and one is None:
            allowed = ", ".join(sorted(key for key, each in declared.items() if each.writable))
            raise Invalid("is not declared", field=f"attributes.{name}", allowed=allowed)
        if one and not one.writable:
            raise Invalid("is read-only", field=f"attributes.{name}")
        if one and one.type == "enum" and one.values and value not in one.values:
            raise Invalid(f"{str(value)[:60]!r} is unknown", field=f"attributes.{name}", allowed=", ".join(one.values))
    return given


def _ids(asked: Request) -> list[str]:
    base, params = asked.scope.sql()
    return [one for (one,) in run(f"SELECT record_id {base} AND has_id ORDER BY id", params)]


def _digest(asked: Request, ids: Sequence[str]) -> dict[str, Any]:
    text = json.dumps([asked.kind, asked.attributes, asked.where, list(ids)], sort_keys=True)
    return {"session": asked.session.pk, "model": asked.known.name, "sha": hashlib.sha256(text.encode()).hexdigest()}


def _require_confirmed(asked: Request, ids: Sequence[str], confirm: str) -> None:
    if not confirm:
        raise Invalid(
            f"is missing: {len(ids)} records are matched",
            field="confirm",
            allowed=f"the token of a dry run, for more than {UNCONFIRMED_MOST}",
        )
    try:
        agreed = signing.loads(confirm, salt=SALT, max_age=TOKEN_HOURS * 3600)
    except signing.BadSignature:
        raise Invalid(
            "is no valid token, or older than an hour", field="confirm", allowed="that of a dry run"
        ) from None
    if agreed != _digest(asked, ids):
        raise Conflict(
            "was given for something else: records or request have changed; run the dry run again", field="confirm"
        )


def _plan(made: Action, asked: Request, ids: Sequence[str]) -> None:
    """Every record's snapshot, kept with the action: what a resume compares with."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO analysis_action_items (action_id, record_id, before, outcome, error) "
            "SELECT %s, record_id, data, 'planned', '' FROM ingested_records "
            "WHERE session_id = %s AND model = %s AND record_id = ANY(%s) ORDER BY id",
            [made.pk, asked.session.pk, asked.known.name, list(ids)],
        )


# -- carrying it out ---------------------------------------------------------------------------------------


def _carry_out(made: Action, upstream: Upstream, session: Session | None, *, again: bool = False) -> Acted:
    busy = Conflict("is being carried out right now", field="action_id")
    with locks.alone("action", made.pk, busy), ThreadPoolExecutor(upstream.at_once) as pool:
        if again:
            made.items.filter(outcome=Outcome.FAILED).update(outcome=Outcome.PLANNED, error="", status_code=None)
            made.items.filter(outcome=Outcome.UNKNOWN).update(outcome=Outcome.SENDING)  # looked at before all else
            made.state = ActionState.RUNNING
            made.save(update_fields=["state"])
        total = made.items.count()
        done = made.items.exclude(outcome__in=[Outcome.PLANNED, Outcome.SENDING]).count()
        while batch := list(made.items.filter(outcome__in=[Outcome.SENDING, Outcome.PLANNED]).order_by("id")[:BATCH]):
            for _ in _round(pool, made, upstream, batch, session):
                done += 1
                progress.tell(done, total, f"{made.kind}: {done}/{total} records processed")
        return _settle(made)


def _round(
    pool: ThreadPoolExecutor, made: Action, upstream: Upstream, batch: Sequence[ActionItem], session: Session | None
) -> Iterator[ActionItem]:
    """One batch: its intents are saved, then its requests sent; outcomes are saved as they come, also when the caller
    goes away in between."""
    unknown = {item.pk for item in batch if item.outcome == Outcome.SENDING}
    ActionItem.objects.filter(pk__in=[item.pk for item in batch]).update(outcome=Outcome.SENDING, at=timezone.now())
    waiting: list[tuple[ActionItem, Future[tuple[Outcome, int | None, str]]]] = [
        (item, pool.submit(_one, made, upstream, item, item.pk in unknown)) for item in batch
    ]
    try:
        while waiting:
            item, future = waiting.pop(0)
            _note(made, item, *future.result(), session)
            yield item
    finally:
        for item, future in waiting:  # nobody waits any more: what was begun is finished, what was not is planned again
            if future.cancel():
                before = Outcome.SENDING if item.pk in unknown else Outcome.PLANNED
                ActionItem.objects.filter(pk=item.pk).update(outcome=before)
            else:
                _note(made, item, *future.result(), session)


def _one(made: Action, upstream: Upstream, item: ActionItem, unknown: bool) -> tuple[Outcome, int | None, str]:
    """One record, in a thread: only requests, no database."""
    try:
        if unknown or made.revalidate:
            try:
                now = upstream.read(item.record_id)
            except UpstreamFailed as error:  # nothing was sent now; what was sent before stays unknown
                return (Outcome.UNKNOWN if unknown else Outcome.FAILED), error.status_code or None, error.message
            found = _compared(made, item, now)
            if unknown and found == "done":
                return Outcome.SUCCEEDED, None, ""
            if found == "drifted":
                return (Outcome.UNKNOWN if unknown else Outcome.DRIFTED), None, _drift(item, now)
        if made.kind == "delete":
            return Outcome.SUCCEEDED, upstream.delete(item.record_id), ""
        return Outcome.SUCCEEDED, upstream.update(item.record_id, made.attributes), ""
    except UpstreamFailed as error:
        if made.kind == "delete" and error.status_code in (404, 410):
            return Outcome.SUCCEEDED, error.status_code, "was gone already"
        no_answer = error.status_code in (0, 500, 502, 504) and not error.never_sent
        return (Outcome.UNKNOWN if no_answer else Outcome.FAILED), error.status_code or None, error.message
    except Exception as error:  # a fault of ours must not lose the other records' outcomes
        return Outcome.UNKNOWN, None, f"{type(error).__name__}: {error}"


def _compared(made: Action, item: ActionItem, now: Mapping[str, Any] | None) -> str:
    """`done`: as asked for; `same`: as it was ingested; `drifted`: neither."""
    if made.kind == "delete" and now is None:
        return "done"
    if now is None:
        return "drifted"
    if made.kind == "update" and all(now.get(name) == value for name, value in made.attributes.items()):
        return "done"
    return "same" if not _differing(item, now) else "drifted"


def _differing(item: ActionItem, now: Mapping[str, Any]) -> list[str]:
    """Fields of the snapshot that the record has with another value. Own fields and flattened ones are not compared."""
    clean = {str(name): records.clean(value) for name, value in now.items()}
    return [name for name, value in item.before.items() if name in clean and clean[name] != value]


def _drift(item: ActionItem, now: Mapping[str, Any] | None) -> str:
    return "is gone" if now is None else f"changed since it was ingested: {', '.join(_differing(item, now))[:300]}"


def _note(
    made: Action, item: ActionItem, outcome: Outcome, status_code: int | None, error: str, session: Session | None
) -> None:
    """The outcome, and the snapshot as the record is now."""
    item.outcome, item.status_code, item.error = outcome, status_code, error[:2_000]
    with transaction.atomic():
        ActionItem.objects.filter(pk=item.pk).update(
            outcome=outcome, status_code=status_code, error=item.error, at=timezone.now()
        )
        if outcome == Outcome.SUCCEEDED and session is not None:
            rows = IngestedRecord.objects.filter(session=session, model=made.model, record_id=item.record_id)
            if made.kind == "delete":
                rows.delete()
            else:
                rows.update(data={**item.before, **made.attributes}, ingested_at=timezone.now())


def _settle(made: Action) -> Acted:
    counts = outcomes(made)
    fine = set(counts) <= {Outcome.SUCCEEDED.value, Outcome.DRIFTED.value}
    made.state = ActionState.DONE if fine else ActionState.PARTIAL
    made.finished_at = timezone.now()
    made.save(update_fields=["state", "finished_at"])
    return Acted(made, counts, failures(made)[:ERRORS_SHOWN])


def outcomes(made: Action) -> dict[str, int]:
    return dict(made.items.order_by().values_list("outcome").annotate(n=Count("pk")))


def failures(made: Action) -> list[ActionItem]:
    bad = [Outcome.FAILED, Outcome.UNKNOWN]
    return list(made.items.filter(outcome__in=bad).order_by("id")[:100])
