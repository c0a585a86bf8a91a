"""Permanent deletion of a user's data from every table.

A call with a token that has the right `wipe` deletes at once. A call with any other token prepares a wipe request, and
the person confirms it in the browser. Rows that others rely on (such as reviews, changesets, and memories applied to
the catalog) are kept under a pseudonym. The audit log keeps the user's calls, but neither the user nor the arguments.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import Value
from django.db.models.functions import Concat, Substr
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import WIPE, Caller
from foundation.people.columns import NOTHING, PSEUDONYM, person_columns
from memories import extensions
from memories.conversation.acting_user import acting_as
from memories.conversation.models import WipeRequest
from memories.conversation.operations import Wipe
from memories.models import (
    Batch,
    Feedback,
    IndexJob,
    MemoryRecord,
    MemoryRevision,
    Tier,
)
from memories.models.record import EDITED_BY
from memories.retrieval import term_changes
from memories.writing.correction_chains import locked_with_predecessor
from memories.writing.erasure import erase_locked
from memories.writing.feedback import MARKED
from memories.writing.hand_overs import conversation_suffix, renamed_conversation
from memories.writing.text_places import MEMORIES

CONFIRMATION_TIME = timedelta(hours=24)  # in which a person can confirm a wipe that an agent has prepared

NOT_CONFIRMED = gettext_noop("wipe_user_data requires confirm=true. This will permanently delete ALL user data.")
NAMES_IN_METADATA = (EDITED_BY, "legacy_created_by")
BATCH = 500  # maximum number of rows per statement


@dataclass(frozen=True)
class WipeOutcome:
    """The result of a call: the wiped data, or a request to wipe it."""

    counts: dict[str, int]  # table → number of its rows that were wiped or, if there is a request, that name the user
    request: WipeRequest | None = None  # the request that the person has to confirm; None if the data was wiped


def request_wipe(caller: Caller, operation: Wipe) -> WipeOutcome:
    """Wipe the user's data if the token has the right `wipe`, otherwise prepare a request that the person confirms.

    Raises Invalid without `confirm`. Raises Forbidden for a service's user if the token lacks the right, because
    such a user can't sign in to confirm.
    """
    user = _user_to_wipe(caller, operation)
    if not operation.confirm:
        raise Invalid(gettext(NOT_CONFIRMED))
    if WIPE in caller.rights:
        return WipeOutcome(_wipe(user))
    with transaction.atomic():
        WipeRequest.objects.filter(created_by=user.email).delete()
        request = WipeRequest.objects.create(
            created_by=user.email,
            counts=count(user.email),
            expires_at=timezone.now() + CONFIRMATION_TIME,
        )
    return WipeOutcome(request.counts, request)


def preview(caller: Caller, operation: Wipe) -> dict[str, int]:
    """Return the counts of the rows that name the user, by table. Raises Forbidden like `request_wipe`."""
    return count(_user_to_wipe(caller, operation).email)


def _user_to_wipe(caller: Caller, operation: Wipe) -> Caller:
    user = acting_as(caller, operation.user_id)
    if WIPE not in caller.rights and user.email != caller.email:
        raise Forbidden(
            gettext("requires a token with the right `wipe`: a service's user can't confirm a wipe"), field="user_id"
        )
    return user


def open_request(caller: Caller, request_id: uuid.UUID) -> WipeRequest:
    """Return the caller's own request if it can still be confirmed, otherwise raise NotFound."""
    row = WipeRequest.objects.filter(pk=request_id, created_by=caller.email, expires_at__gt=timezone.now()).first()
    if row is None:
        raise NotFound(
            gettext("this wipe request is not yours, has expired, or was already confirmed, withdrawn or replaced")
        )
    return row


def confirm(caller: Caller, *, request_id: uuid.UUID) -> WipeOutcome:
    request = open_request(caller, request_id)
    return WipeOutcome(_wipe(acting_as(caller, request.created_by)))


def withdraw(caller: Caller, *, request_id: uuid.UUID) -> None:
    open_request(caller, request_id).delete()


def count(owner: str) -> dict[str, int]:
    """Count the rows of each table that name this owner, including those that a wipe keeps under a pseudonym."""
    counts = {"memory_records": MemoryRecord.objects.filter(created_by=owner).count()}
    for model, personal in person_columns():
        if personal.on_wipe == NOTHING:
            continue
        table = model._meta.db_table
        rows = model._default_manager.filter(**{personal.column: owner})
        counts[table] = counts.get(table, 0) + rows.count()
    return {table: row_count for table, row_count in counts.items() if row_count}


@identity.service("wipe")
def _wipe(user: Caller) -> dict[str, int]:
    owner = user.email
    pseudonym = f"wiped-{uuid.uuid4().hex[:12]}"
    with transaction.atomic():
        counts = dict(_wipe_memories(user, pseudonym))
        for model, personal in person_columns():
            if personal.on_wipe == NOTHING:
                continue
            rows = model._default_manager.filter(**{personal.column: owner})
            if personal.on_wipe == PSEUDONYM:
                rows.update(**{personal.column: pseudonym})
                continue
            table = model._meta.db_table
            counts[table] = counts.get(table, 0) + rows.delete()[0]
        counts |= extensions.owner_wiped(owner, pseudonym)
        term_changes.count_all()
    return counts


def _wipe_memories(user: Caller, pseudonym: str) -> Mapping[str, int]:
    owned = MemoryRecord.objects.filter(created_by=user.email)
    count = _wipe_conversations(user)
    for pk in list(owned.filter(tier=Tier.NONE).order_by("-created_at").values_list("pk", flat=True)):
        try:
            count += _erase(user, pk)
        except Conflict:  # the memory is applied to the catalog, so it is kept under the pseudonym
            owned.filter(pk=pk).update(created_by=pseudonym)
    for name in NAMES_IN_METADATA:
        for record in MemoryRecord.objects.filter(**{f"metadata__{name}": user.email}).defer("search"):
            MemoryRecord.objects.filter(pk=record.pk).update(metadata=record.metadata | {name: pseudonym})
        for revision in MemoryRevision.objects.filter(**{f"details__metadata__{name}": user.email}):
            details = revision.details | {"metadata": revision.details["metadata"] | {name: pseudonym}}
            MemoryRevision.objects.filter(pk=revision.pk).update(details=details)
    for revision in MemoryRevision.objects.filter(details__created_by=user.email):
        MemoryRevision.objects.filter(pk=revision.pk).update(details=revision.details | {"created_by": pseudonym})
    _rename_in_texts(user.email, pseudonym)
    return {"memory_records": count}


def _rename_in_texts(email: str, pseudonym: str) -> None:
    """Replace the address where a text of another person's row has it: a reason, a choice, a conversation's name."""
    Batch.objects.filter(choice=email).update(choice=pseudonym)
    marked, renamed = f"{email} {MARKED}", f"{pseudonym} {MARKED}"
    for model, column in ((MemoryRecord, "stale_reason"), (Feedback, "made_stale")):
        rows = model.objects.filter(**{f"{column}__startswith": marked})
        rows.update(**{column: Concat(Value(renamed), Substr(column, len(marked) + 1))})
    for revision in MemoryRevision.objects.filter(details__stale_reason__startswith=marked):
        reason = renamed + revision.details["stale_reason"].removeprefix(marked)
        MemoryRevision.objects.filter(pk=revision.pk).update(details=revision.details | {"stale_reason": reason})
    suffix = conversation_suffix(email)
    for conversation in set(
        MemoryRecord.objects.filter(conversation_id__endswith=suffix).values_list("conversation_id", flat=True)
    ):
        rows = MemoryRecord.objects.filter(conversation_id=conversation)
        rows.update(conversation_id=renamed_conversation(conversation.removesuffix(suffix), pseudonym))


def _erase(user: Caller, record_id: uuid.UUID) -> int:
    """Erase a memory of the user. Return the number of erased memories, including those that were copies of it."""
    if not MemoryRecord.objects.filter(pk=record_id).exists():  # it was a copy of another memory
        return 0
    with transaction.atomic():
        record, old = locked_with_predecessor(user, record_id)
        _, removed = erase_locked(user, record, old)
    return 1 + removed[MEMORIES]


def _wipe_conversations(user: Caller) -> int:
    """Delete the user's conversation memories; return how many.

    Shared memories are erased one by one, because other users may have copies. Private ones are deleted in batches.
    """
    shared = MemoryRecord.objects.filter(created_by=user.email).exclude(tier=Tier.NONE).exclude(visibility="private")
    count = 0
    for pk in list(shared.values_list("pk", flat=True)):
        count += _erase(user, pk)
    pks = list(MemoryRecord.objects.filter(created_by=user.email).exclude(tier=Tier.NONE).values_list("pk", flat=True))
    for start in range(0, len(pks), BATCH):
        part = pks[start : start + BATCH]
        for pk in part:
            extensions.erase_copies(user, pk, [])
        IndexJob.objects.filter(source_id__in=part).delete()
        MemoryRecord.objects.filter(pk__in=part).delete()
    return count + len(pks)
