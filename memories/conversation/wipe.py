"""All that a person owns, gone for good, in every table.

An agent alone prepares it; it is carried out with the token right `wipe`, or when the person confirms it in the
browser. What others rely on (reviews, changesets, what stands in the catalog) stays under a pseudonym; the audit keeps
that something happened, and nothing of whom or what.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memories import extensions
from memories.contract.errors import Conflict, Forbidden, Invalid, NotFound
from memories.conversation.acting_user import acting_as
from memories.conversation.models import WipeRequest
from memories.conversation.operations import Wipe
from memories.extensions import PersonalDataColumn
from memories.identity.caller import WIPE, Caller
from memories.models import Batch, Feedback, Impression, IndexJob, MemoryRecord, MemoryRevision, Tier, Tombstone
from memories.operations import EDITED_BY, Erase
from memories.writing.erasure import erase

NOT_CONFIRMED = "wipe_user_data requires confirm=true. This will permanently delete ALL user data."
NAMES_IN_METADATA = (EDITED_BY, "legacy_created_by")
TOGETHER = 500


@dataclass(frozen=True)
class Outcome:
    """Rows by table: those that would go while a `request` waits, or those that went."""

    counts: dict[str, int]
    request: WipeRequest | None = None


def request_wipe(operation: Wipe, *, caller: Caller) -> Outcome:
    """Wipes the user's data if the token may, else prepares it for the person to confirm. Raises Invalid without
    confirm; Forbidden for a service's user without the right, as nobody could confirm it."""
    user = acting_as(caller, operation.user_id)
    if not operation.confirm:
        raise Invalid(NOT_CONFIRMED)
    if WIPE in caller.rights:
        return Outcome(_wipe(user))
    if user.email != caller.email:
        raise Forbidden("needs a token with the right `wipe`: a service's user can't confirm it", field="user_id")
    with transaction.atomic():
        WipeRequest.objects.filter(created_by=user.email).delete()
        request = WipeRequest.objects.create(
            created_by=user.email,
            counts=count(user.email),
            expires_at=timezone.now() + timedelta(hours=settings.WIPE_CONFIRMATION_HOURS),
        )
    return Outcome(request.counts, request)


def open_request(caller: Caller, request_id: uuid.UUID) -> WipeRequest:
    """The caller's own request, while it can be confirmed. Raises NotFound."""
    row = WipeRequest.objects.filter(pk=request_id, created_by=caller.email, expires_at__gt=timezone.now()).first()
    if row is None:
        raise NotFound("this request is not yours, was carried out, or has expired")
    return row


def confirm(*, caller: Caller, request_id: uuid.UUID) -> Outcome:
    """The person says yes in the browser."""
    request = open_request(caller, request_id)
    return Outcome(_wipe(acting_as(caller, request.created_by)))


def withdraw(*, caller: Caller, request_id: uuid.UUID) -> None:
    open_request(caller, request_id).delete()


def count(owner: str) -> dict[str, int]:
    """How many rows of each table name this owner, those that stay under a pseudonym included."""
    counts = {"memory_records": MemoryRecord.objects.filter(created_by=owner).count()}
    for named in _personal_data():
        table, rows = named.model._meta.db_table, named.model._default_manager.filter(**{named.column: owner})
        counts[table] = counts.get(table, 0) + rows.count()
    return {table: n for table, n in counts.items() if n}


def _wipe(user: Caller) -> dict[str, int]:
    owner, pseudonym = user.email, f"wiped-{uuid.uuid4().hex[:12]}"
    with transaction.atomic():
        counts = dict(_wipe_memories(user, pseudonym))
        for named in _personal_data():
            rows = named.model._default_manager.filter(**{named.column: owner})
            table = named.model._meta.db_table
            n = rows.update(**{named.column: pseudonym}) if named.stays else rows.delete()[0]
            if not named.stays:
                counts[table] = counts.get(table, 0) + n
        for extension in extensions.registered():
            counts |= extension.owner_wiped(owner, pseudonym)
    return counts


def _wipe_memories(user: Caller, pseudonym: str) -> Mapping[str, int]:
    """Memories with all copies; what stands in the catalog stays, under the pseudonym."""
    owned = MemoryRecord.objects.filter(created_by=user.email)
    count = _wipe_conversations(user)
    for pk in list(owned.filter(tier=Tier.NONE).order_by("-created_at").values_list("pk", flat=True)):
        try:
            erase(Erase(record_id=pk, confirm=True), caller=user)
            count += 1
        except Conflict:
            owned.filter(pk=pk).update(created_by=pseudonym)
    for name in NAMES_IN_METADATA:
        for record in MemoryRecord.objects.filter(**{f"metadata__{name}": user.email}).defer("search"):
            MemoryRecord.objects.filter(pk=record.pk).update(metadata=record.metadata | {name: pseudonym})
    for revision in MemoryRevision.objects.filter(details__created_by=user.email):
        MemoryRevision.objects.filter(pk=revision.pk).update(details=revision.details | {"created_by": pseudonym})
    return {"memory_records": count}


def _wipe_conversations(user: Caller) -> int:
    """Turns and what lasted of them: many, and quoted by nobody while they were private."""
    shared = MemoryRecord.objects.filter(created_by=user.email).exclude(tier=Tier.NONE).exclude(visibility="private")
    count = 0
    for pk in list(shared.values_list("pk", flat=True)):
        erase(Erase(record_id=pk, confirm=True), caller=user)
        count += 1
    pks = list(MemoryRecord.objects.filter(created_by=user.email).exclude(tier=Tier.NONE).values_list("pk", flat=True))
    for start in range(0, len(pks), TOGETHER):
        part = pks[start : start + TOGETHER]
        for pk in part:
            for extension in extensions.registered():
                extension.erase_copies(pk, [])
        IndexJob.objects.filter(source_id__in=part).delete()
        MemoryRecord.objects.filter(pk__in=part).delete()
    return count + len(pks)


def _personal_data() -> list[PersonalDataColumn]:
    """Return the columns that name a person, of this app and of all that extend it."""
    own = [
        PersonalDataColumn(Batch, "created_by"),
        PersonalDataColumn(Feedback, "by"),
        PersonalDataColumn(Impression, "to"),
        PersonalDataColumn(MemoryRevision, "changed_by", stays=True),
        PersonalDataColumn(Tombstone, "created_by", stays=True),
        PersonalDataColumn(Tombstone, "erased_by", stays=True),
    ]
    return own + [column for extension in extensions.registered() for column in extension.personal_data()]
