"""Deletion of copies of memories in analyses, when a memory is erased or the copy's owner may no longer read it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet

from analysis.models import Finding, IngestedRecord, Session
from analysis.sources.memories import MODEL
from foundation.database import identity
from foundation.operations.errors import Forbidden
from foundation.people.permissions import build_caller
from memories.models import MemoryRecord


def erase_copies(record_id: UUID) -> dict[str, int]:
    """Delete all copies of a memory, and the page summaries of memories in the sessions with a copy.

    An ingest still reads the memory until the erasure is committed, so copies are looked for again afterwards.
    """
    transaction.on_commit(partial(_erase_copies, record_id), robust=True)
    copies, summaries = _erase_copies(record_id)
    return {"ingested records": copies, "page summaries": summaries}


@identity.service("copies")
def _erase_copies(record_id: UUID) -> tuple[int, int]:
    return _drop(IngestedRecord.objects.filter(model=MODEL, record_id=record_id.hex))


def drop_unreadable_copies(record_ids: Sequence[UUID]) -> None:
    """Delete copies of these memories from the sessions of users who may no longer read the memories."""
    transaction.on_commit(partial(_drop_unreadable_copies, record_ids), robust=True)
    _drop_unreadable_copies(record_ids)


@identity.service("copies")
def _drop_unreadable_copies(record_ids: Sequence[UUID]) -> None:
    copies = IngestedRecord.objects.filter(model=MODEL, record_id__in=[pk.hex for pk in record_ids])
    for owner in copies.order_by().values_list("session__owner", flat=True).distinct():
        readable = _readable_by(owner, record_ids)
        unreadable = [pk.hex for pk in record_ids if pk not in readable]
        _drop(copies.filter(session__owner=owner, record_id__in=unreadable))


@identity.service("copies")
def drop_copies_unreadable_by(email: str) -> None:
    copies = IngestedRecord.objects.filter(session__owner=email, model=MODEL).order_by()
    ids = [UUID(text) for text in copies.values_list("record_id", flat=True).distinct()]
    if ids:
        readable = _readable_by(email, ids)
        _drop(copies.filter(record_id__in=[pk.hex for pk in ids if pk not in readable]))


def _readable_by(email: str, record_ids: Sequence[UUID]) -> set[UUID]:
    person = get_user_model().objects.filter(email=email).first()
    if person is None:
        return set()
    try:
        caller = build_caller(person, channel="copies")
    except Forbidden:  # the account is disabled
        return set()
    visible = MemoryRecord.objects.visible_to(caller).filter(pk__in=record_ids)
    return set(visible.values_list("pk", flat=True))


def _drop(copies: QuerySet[Any]) -> tuple[int, int]:
    """Delete copies, and page summaries, which may contain their values. Return the number of each.

    A new ingest recreates the summaries.
    """
    pks = list(copies.values_list("pk", flat=True))
    if not pks:
        return 0, 0
    rows = IngestedRecord.objects.filter(pk__in=pks)
    sessions = list(Session.objects.filter(pk__in=rows.values("session")))
    summaries = Finding.objects.filter(session__in=sessions, model=MODEL).exclude(page_key="")
    count = summaries.count()
    summaries.delete()
    rows.delete()
    return len(pks), count
