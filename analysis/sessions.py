"""Analysis sessions: ownership, contents and expiry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Max, Min, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from analysis.models import Finding, IngestedRecord, Session
from analysis.operations import AnalysisId
from foundation.database.replica import connection_for_reading
from foundation.operations.errors import Forbidden, NotFound
from foundation.operations.near_misses import SIMILAR
from foundation.operations.operation import validate
from foundation.people.caller import Caller, require_user

FINDING_TTL = timedelta(hours=1)
MAX_COMPARED = 500  # analyses, last used first, that an unknown name is compared with
NUMBER = re.compile(r"\d+")


def record_ttl() -> timedelta:
    return timedelta(days=settings.ANALYSIS_RECORD_DAYS)


def acting_for(caller: Caller, user_id: str) -> str:
    """Return the id of the user to impersonate upstream, or "" for none.

    Raises Forbidden if it names another user and the caller lacks the right `act_for_users`.
    """
    user_id = user_id.strip()
    if user_id and user_id.lower() != caller.email and "act_for_users" not in caller.rights:
        raise Forbidden(gettext("is not you: this connection can't act for other users"), field="user_id")
    return user_id


def begin(caller: Caller, analysis_id: str) -> Session:
    """Return the caller's session with this analysis_id, creating it if necessary."""
    require_user(caller)
    session, _ = Session.objects.get_or_create(
        owner=caller.email,
        analysis_id=validate(AnalysisId, analysis_id, "analysis_id"),
        defaults={"persona": caller.persona},
    )
    touch(session)
    return session


def get_session(caller: Caller, analysis_id: str) -> Session:
    """Return the caller's session. Raises NotFound if the caller has none with this analysis_id."""
    session = (
        Session.objects.owned_by(caller).filter(analysis_id=validate(AnalysisId, analysis_id, "analysis_id")).first()
    )
    if session is None:
        problem = gettext("you have no such analysis: start one with analysis_ingest")
        if similar := nearest(caller, analysis_id):
            problem = gettext("you have no such analysis: did you mean %(analysis)s?") % {"analysis": similar}
        raise NotFound(problem, field="analysis_id")
    touch(session)
    return session


def nearest(caller: Caller, analysis_id: str) -> str:
    """Return the name of the caller's analysis that is most like this one and has the same numbers, or ""."""
    others = Session.objects.owned_by(caller).exclude(analysis_id=analysis_id).order_by("-last_used_at")
    numbers = NUMBER.findall(analysis_id)
    names = [
        name
        for name in others.values_list("analysis_id", flat=True)[:MAX_COMPARED]
        if NUMBER.findall(name) == numbers  # the analyses of two months have almost the same name
    ]
    return next(iter(get_close_matches(analysis_id, names, n=1, cutoff=SIMILAR)), "")


def touch(session: Session) -> None:
    session.last_used_at = timezone.now()
    Session.objects.filter(pk=session.pk).update(last_used_at=session.last_used_at)


def models_of(session: Session) -> dict[str, int]:
    """Return the number of unexpired records per model."""
    rows = IngestedRecord.objects.filter(session=session, expires_at__gt=timezone.now()).order_by("model")
    return dict(rows.values_list("model").annotate(count=Count("pk")))


# Selects the names of a session's models, including models whose records have all expired. The loose index scan jumps
# from one model to the next instead of reading all records.
MODELS = """
    WITH RECURSIVE held AS (
        SELECT min(model) AS model FROM ingested_records WHERE session_id = %s
        UNION ALL
        SELECT (SELECT min(model) FROM ingested_records WHERE session_id = %s AND model > held.model)
        FROM held WHERE held.model IS NOT NULL
    ) SELECT model FROM held WHERE model IS NOT NULL
"""


def names_of_models(session: Session) -> list[str]:
    with connection_for_reading().cursor() as cursor:
        cursor.execute(MODELS, [session.pk, session.pk])
        return [model for (model,) in cursor.fetchall()]


def clear(caller: Caller, *, analysis_id: str) -> tuple[int, int]:
    """Delete the session, and return the numbers of records and of findings that were deleted with it.

    Actions are kept. If the caller has no such session, nothing is deleted.
    """
    name = validate(AnalysisId, analysis_id, "analysis_id")
    with transaction.atomic():
        session = Session.objects.owned_by(caller).select_for_update().filter(analysis_id=name).first()
        if session is None:
            return 0, 0
        records = IngestedRecord.objects.filter(session=session)._raw_delete("default")
        findings = _drop(Finding.objects.filter(session=session))
        session.delete()
    return records, findings


def delete_expired_sessions() -> int:
    """Delete expired records and findings, and empty sessions that were last used more than record_ttl() ago.

    Return the number of deleted rows.
    """
    now = timezone.now()
    count: int = IngestedRecord.objects.filter(expires_at__lte=now)._raw_delete("default")
    count += _drop(Finding.objects.filter(expires_at__lte=now))
    empty = Session.objects.filter(records=None, findings=None, last_used_at__lt=now - record_ttl())
    return count + empty.delete()[0]


def count_contents(rows: Sequence[Session]) -> dict[int, dict[str, int]]:
    """Return, for each session id, the number of unexpired records and the number of all findings."""
    now = timezone.now()
    keys = [session.pk for session in rows]
    records = IngestedRecord.objects.filter(session__in=keys, expires_at__gt=now).order_by().values_list("session")
    findings = Finding.objects.filter(session__in=keys).order_by().values_list("session")
    counts: dict[int, dict[str, int]] = {key: {"records": 0, "findings": 0} for key in keys}
    for name, contents in (("records", records), ("findings", findings)):
        for key, count in contents.annotate(count=Count("pk")):
            counts[key][name] = count
    return counts


def overview(session: Session) -> list[dict[str, Any]]:
    rows = IngestedRecord.objects.filter(session=session, expires_at__gt=timezone.now()).order_by("model")
    models = rows.values("model").annotate(
        records=Count("pk"), earliest=Min("ingested_at"), latest=Max("ingested_at"), expires=Min("expires_at")
    )
    return [dict(row) for row in models]


def by_key(caller: Caller, key: int) -> Session | None:
    return Session.objects.owned_by(caller).filter(pk=key).first()


def _drop(findings: QuerySet[Finding]) -> int:
    return int(findings.delete()[1].get(Finding._meta.label, 0))  # without passages
