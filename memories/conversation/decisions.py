"""Decisions of users. Each decision is stored under a key, and its earlier values are kept.

A decision expires only if it was stored with a lifetime.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.models import UserDecision, UserDecisionChange
from memories.conversation.operations import RecallDecision, StoreDecision


def store_decision(caller: Caller, operation: StoreDecision) -> tuple[UserDecision, str]:
    """Store a decision; return it, and "created" or "updated".

    If an earlier decision under the key has expired, the new one counts as created.
    """
    user = acting_as(caller, operation.user_id)
    now = timezone.now()
    expiry = now + timedelta(days=operation.ttl_days) if operation.ttl_days else None
    with transaction.atomic():
        with connection.cursor() as cursor:
            # Without this lock, two concurrent calls with a new key would both try to create the decision.
            lock_name = f"decision {user.email} {operation.key}"
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [lock_name])
        old = UserDecision.objects.filter(created_by=user.email, key=operation.key).first()
        if old is None:
            decision = UserDecision.objects.create(
                created_by=user.email,
                key=operation.key,
                value=operation.value,
                created_at=now,
                updated_at=now,
                expires_at=expiry,
            )
            return decision, "created"
        had_expired = old.has_expired
        ended = min(now, old.expires_at) if old.expires_at else now
        if old.value != operation.value or had_expired:
            _save_earlier_value(old, ended)
        old.created_at = now if had_expired else old.created_at
        old.value = operation.value
        old.updated_at = now
        old.expires_at = expiry
        old.save(update_fields=["value", "created_at", "updated_at", "expires_at"])
    return old, "created" if had_expired else "updated"


def recall_decision(caller: Caller, operation: RecallDecision) -> UserDecision | None:
    """Return the unexpired decision under this key, or None."""
    user = acting_as(caller, operation.user_id)
    decision = UserDecision.objects.filter(created_by=user.email, key=operation.key).first()
    return None if decision is None or decision.has_expired else decision


def _save_earlier_value(decision: UserDecision, ended: datetime) -> None:
    UserDecisionChange.objects.create(
        decision=decision,
        value=decision.value,
        valid_from=decision.updated_at,
        valid_to=max(ended, decision.updated_at),
    )
