"""Exact duplicates: an owner's active and stale facts in a persona with the same text.

Texts that differ only in case and white space count as the same. A proposal that waits for review or was rejected has
a record of its own, and is no duplicate of a memory with the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.models import Value
from django.utils.translation import gettext

from foundation.database import prepared_statements
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from memories import extensions
from memories.models import IN_USE, MemoryRecord
from memories.models.fields import ContentKey

LOCKS = """
    SELECT pg_advisory_xact_lock(h) FROM (
        SELECT DISTINCT hashtextextended(t, 0) AS h FROM unnest(%(turnstiles)s::text[]) AS t ORDER BY h
    ) locks"""
# An owner's active and stale facts in a persona with one of the texts. The oldest fact of each text comes last.
DUPLICATES_SQL = f"""
    created_by = %(owner)s AND persona = %(persona)s AND tier = '' AND status IN ('active', 'stale')
    AND content_key = ANY(ARRAY(
        SELECT {ContentKey.template % {"expressions": "t"}} FROM unnest(%(texts)s::text[]) AS t
    )) ORDER BY created_at DESC"""  # noqa: S608 - the template is a constant


def normalized_key(text: str) -> str:
    return " ".join(text.casefold().split())


def lock_duplicates(caller: Caller, texts: Sequence[str]) -> dict[str, MemoryRecord]:
    """Return the caller's active and stale facts in the active persona with one of these texts, by normalized key.

    Proposals that are not approved are left out, and of an approved one and a memory, the memory is returned. The texts
    are locked as by `lock_same_text`.
    """
    rows = lock_same_text(caller, texts)
    approved = proposals([row.pk for row in rows])
    not_pending = [row for row in rows if approved.get(row.pk, True)]
    not_pending.sort(key=lambda row: row.pk not in approved)  # a stable sort: the last one of each text is returned
    return {normalized_key(row.content): row for row in not_pending}


def same_texts(caller: Caller, texts: Sequence[str]) -> dict[str, MemoryRecord]:
    """Return the caller's facts as `lock_duplicates` does, without locking the texts."""
    values = {"owner": caller.email, "persona": caller.persona, "texts": list(texts)}
    rows = prepared_statements.instances(MemoryRecord, DUPLICATES_SQL, values, defer=["search"])
    return {normalized_key(row.content): row for row in rows} if texts else {}


def lock_same_text(caller: Caller, texts: Sequence[str]) -> list[MemoryRecord]:
    """Return the caller's active and stale facts and proposals in the active persona with one of these texts.

    The oldest record of each text comes last. The texts stay locked until the end of the transaction, so that
    concurrent calls can't store the same text twice.
    """
    _lock_texts(caller.email, texts)
    values = {"owner": caller.email, "persona": caller.persona, "texts": list(texts)}
    return list(prepared_statements.instances(MemoryRecord, DUPLICATES_SQL, values, defer=["search"]))


def _lock_texts(owner: str, texts: Sequence[str]) -> None:
    # The statement takes the locks in the order of their hashes, which prevents deadlocks.
    turnstiles = sorted({f"{owner} {normalized_key(text)}" for text in texts})
    prepared_statements.rows(LOCKS, {"turnstiles": turnstiles}, primary=True)


def require_new_text(caller: Caller, record: MemoryRecord, text: str) -> None:
    """Raise Conflict if the owner of a memory that is to get this text has another fact with it in the same persona.

    Facts that the caller may not read don't count, because the refusal would tell that they exist, nor do proposals.
    The text is locked as by `lock_same_text`.
    """
    if record.tier:  # conversation memories may have the same text
        return
    _lock_texts(record.created_by, [text])
    rows = MemoryRecord.objects.facts().visible_to(caller).exclude(pk=record.pk)
    rows = rows.filter(created_by=record.created_by, persona=record.persona, content_key=ContentKey(Value(text)))
    rows = rows.filter(status__in=IN_USE).order_by("created_at")
    found = list(rows.values_list("pk", flat=True))
    proposed = proposals(found)
    plain = [pk for pk in found if pk not in proposed]
    if plain:
        raise Conflict(
            gettext("the same text is already remembered, as %(memory)s: forget this memory and use that one")
            % {"memory": plain[0].hex},
            field="content",
        )


def find_duplicate(record: MemoryRecord, persona: str = "") -> MemoryRecord | None:
    """Return another active or stale fact with the same text and owner in this or the given persona, or None.

    A proposal is only compared with proposals, and any other memory only with such memories.
    """
    others, approved = _same_text(record, persona)
    return next((other for other in others if (other.pk in approved) == (record.pk in approved)), None)


def find_plain(record: MemoryRecord) -> MemoryRecord | None:
    """Return an active or stale fact with the text, owner and persona of a proposal that is not a proposal, or None."""
    others, approved = _same_text(record, "")
    return next((other for other in others if other.pk not in approved), None)


def plain_twin(record: MemoryRecord) -> MemoryRecord | None:
    """Return another active or stale fact that has the text, owner and persona of a memory. None for a proposal.

    The text is locked as by `lock_same_text`.
    """
    if proposals([record.pk]):
        return None
    _lock_texts(record.created_by, [record.content])
    return find_duplicate(record)


def _same_text(record: MemoryRecord, persona: str) -> tuple[list[MemoryRecord], dict[UUID, bool]]:
    if record.tier:  # conversation memories may have the same text
        return [], {}
    rows = MemoryRecord.objects.facts().filter(created_by=record.created_by, persona=persona or record.persona)
    rows = rows.filter(content_key=record.content_key, status__in=IN_USE)
    others = list(rows.exclude(pk=record.pk).defer("search").order_by("created_at", "pk"))
    return others, proposals([record.pk, *(other.pk for other in others)]) if others else {}


def proposals(record_ids: Sequence[UUID]) -> dict[UUID, bool]:
    """Return those of these records that are proposals for review, each with whether it is approved."""
    return extensions.proposals_among(record_ids) if record_ids else {}
