"""Hand-over of everything that a person owns, when the person leaves or has a new e-mail address, and its undo.

Facts that both people have become one: the copy that fewer people may read is archived, with the id of the other one in
metadata.duplicate_of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Max, Model
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.people.columns import PersonColumn, handed_over
from memories import extensions
from memories.models import HandOver, MemoryRecord, MemoryRevision, Status
from memories.use.citations.changes import note_changes
from memories.writing.correction_chains import reactivate
from memories.writing.exact_duplicates import find_duplicate, proposals
from memories.writing.revision import revised

BATCH = 1_000  # number of memories that are loaded at once
FIRST_OWNER = "legacy_created_by"  # key in the metadata of a memory that was handed over
DUPLICATE_OF = "duplicate_of"  # key in the metadata of a memory that was archived because the heir has the same text
# Reasons in the history. They name nobody, so that wiping a person's data leaves them as they are.
MOVED = "handed over to another owner"
UNDONE = "the hand-over was undone"
SAME = "the other owner has the same text"

# Pairs of facts of two owners with the same text in one persona: the leaver's id, the heir's id, and whether more
# people may read the leaver's. Of several copies of one owner, each is paired.
SAME_TEXT = """
    SELECT mine.id, theirs.id,
           array_position(ARRAY['private', 'persona', 'everyone'], mine.visibility::text)
           > array_position(ARRAY['private', 'persona', 'everyone'], theirs.visibility::text)
    FROM memory_records mine JOIN memory_records theirs USING (persona, content_key)
    WHERE mine.created_by = %(old)s AND theirs.created_by = %(new)s AND mine.tier = '' AND theirs.tier = ''
    AND mine.status IN ('active', 'stale') AND theirs.status IN ('active', 'stale')"""
# Conversations of two owners with the same id. Those of the leaver get a new one.
SAME_CONVERSATION = """
    SELECT DISTINCT mine.conversation_id FROM memory_records mine JOIN memory_records theirs USING (conversation_id)
    WHERE mine.created_by = %(old)s AND theirs.created_by = %(new)s AND mine.conversation_id <> ''"""


def hand_over(caller: Caller, *, old: str, new: str) -> HandOver:
    """Move everything of `old` to `new`: memories, conversations, analyses and what extensions list as owned.

    `stays` of the returned row counts what could not be moved, because the heir has a row of this name. The first owner
    of a memory is kept in metadata.legacy_created_by. Raises Forbidden if the caller is not an admin, and Invalid if
    one of the two is empty, if both are the same, or if `new` is not an e-mail address.
    """
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can transfer ownership"))
    old = old.strip()
    new = new.strip().lower()
    if not old or not new or old == new:
        raise Invalid(
            gettext("old and new owner must be given and must differ"),
            field="new",
            allowed=gettext("an e-mail address"),
        )
    if len(new) > 254 or "@" not in new:
        raise Invalid(
            gettext("%(new)r is not an e-mail address") % {"new": new[:60]},
            field="new",
            allowed=gettext("an e-mail address"),
        )
    with transaction.atomic():
        _lock_owners(old, new)
        record = HandOver(from_owner=old, to_owner=new, by=caller.email)
        duplicates = _archive_duplicates(caller, old, new)
        record.moved = {"memories": [], "returned": [], "duplicates": duplicates, "conversations": []}
        record.moved["conversations"] = _rename_conversations(old, new)
        for rows in _batches(old):
            record.moved["memories"] += [row.pk.hex for row in rows]
            record.moved["returned"] += [row.pk.hex for row in rows if row.metadata.get(FIRST_OWNER) == new]
            _move(caller, rows, new, MOVED)
        for model, owned in handed_over():
            moved, stays = _move_rows(model, owned, old, new)
            record.moved[owned.handed_over_as] = moved
            if stays:
                record.stays[owned.handed_over_as] = stays
        record.save(force_insert=True)
        extensions.access_narrowed([UUID(pk) for pk in record.moved["memories"]])
        extensions.things_received(new)
    return record


def undo_hand_over(caller: Caller, *, hand_over_id: UUID | str) -> dict[str, int]:
    """Take back what a hand-over moved, as far as it still exists and belongs to the heir.

    A fact is archived if its first owner has remembered the same text again, so that nobody has it twice.
    Return the numbers of rows that were taken back, by kind, and as `kept` the number of those that were not. Raises
    Forbidden if the caller is not an admin, NotFound, and Conflict if the hand-over was undone already.
    """
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can transfer ownership"))
    pk = validate(Id, hand_over_id, "hand_over_id")
    with transaction.atomic():
        row = HandOver.objects.select_for_update().filter(pk=pk).first()
        if row is None:
            raise NotFound(gettext("no such hand-over"), field="hand_over_id")
        if row.undone_at:
            raise Conflict(gettext("was undone by %(undone_by)s") % {"undone_by": row.undone_by}, field="hand_over_id")
        old = row.from_owner
        new = row.to_owner
        _lock_owners(old, new)
        counts = {"memories": _take_back_memories(caller, row)}
        _restore_duplicates(caller, row)
        for conversation in row.moved["conversations"]:
            renamed = MemoryRecord.objects.filter(
                created_by=old, conversation_id=renamed_conversation(conversation, old)
            )
            renamed.update(conversation_id=conversation)
        for model, owned in handed_over():
            kind = owned.handed_over_as
            counts[kind] = len(_move_rows(model, owned, new, old, row.moved.get(kind, []))[0])
        extensions.things_received(old)
        row.undone_by = caller.email
        row.undone_at = timezone.now()
        row.save(update_fields=["undone_by", "undone_at"])
    counts = {kind: count for kind, count in counts.items() if count}
    kept = sum(row.counts.get(kind, 0) for kind in ("memories", *(owned.handed_over_as for _, owned in handed_over())))
    return counts | {"kept": kept - sum(counts.values())}


def open_hand_overs(old: str) -> list[HandOver]:
    """Return a person's hand-overs that can be undone, newest first."""
    return list(HandOver.objects.filter(from_owner=old, undone_at=None))


def _lock_owners(*owners: str) -> None:
    # Two hand-overs at the same time could move a row twice.
    with connection.cursor() as cursor:
        for owner in sorted(owners):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 2))", [owner])


# -- memories ---------------------------------------------------------------------------------------------


def _batches(owner: str, ids: Sequence[UUID] | None = None) -> Iterator[list[MemoryRecord]]:
    """Yield the owner's memories, or those of them with these ids, locked, in batches."""
    owned = MemoryRecord.objects.filter(created_by=owner)
    pks = list((owned if ids is None else owned.filter(pk__in=ids)).order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(pks), BATCH):
        rows = MemoryRecord.objects.select_for_update().filter(pk__in=pks[start : start + BATCH], created_by=owner)
        yield list(rows.order_by("pk").defer("search"))


def _move(caller: Caller, rows: Sequence[MemoryRecord], new: str, reason: str) -> None:
    """Change the owner of locked memories, and keep the earlier state of each as a revision."""
    now = timezone.now()
    _keep_revisions(caller, rows, "hand_over", reason, now)
    for row in rows:
        first_owner = row.metadata.pop(FIRST_OWNER, row.created_by)
        if first_owner != new:
            row.metadata[FIRST_OWNER] = first_owner
        row.created_by = new
        row.updated_at = now
    MemoryRecord.objects.bulk_update(rows, ["created_by", "metadata", "updated_at"], batch_size=500)


def _keep_revisions(caller: Caller, rows: Sequence[MemoryRecord], change: str, reason: str, now: datetime) -> None:
    """Keep the current states of locked memories as revisions, in few statements."""
    ids = [row.pk for row in rows]
    ended = MemoryRevision.objects.filter(record__in=ids).order_by().values("record").annotate(at=Max("valid_to"))
    since: dict[UUID, datetime] = dict(ended.values_list("record", "at"))
    MemoryRevision.objects.bulk_create(
        MemoryRevision(
            record=row,
            valid_from=since.get(row.pk, row.created_at),
            valid_to=now,
            content=row.content,
            status=row.status,
            visibility=row.visibility,
            details={"created_by": row.created_by},
            change=change,
            changed_by=caller.email,
            reason=reason,
        )
        for row in rows
    )


def _take_back_memories(caller: Caller, row: HandOver) -> int:
    again = _remembered_again(row)
    ids = [UUID(pk) for pk in row.moved["memories"]]
    returned = set(row.moved["returned"])
    taken: set[UUID] = set()
    for rows in _batches(row.to_owner, ids):
        for record in rows:
            if record.pk.hex in returned:  # the heir was its first owner
                record.metadata[FIRST_OWNER] = row.to_owner
        _move(caller, rows, row.from_owner, UNDONE)
        taken |= {record.pk for record in rows}
    _archive(caller, {pk: stays for pk, stays in again.items() if pk in taken})
    extensions.access_narrowed(sorted(taken))
    return len(taken)


def _remembered_again(row: HandOver) -> dict[UUID, UUID]:
    """Return the facts of the heir of which the first owner has another one with the same text, with that one's id."""
    pairs = [(mine, theirs) for mine, theirs, _ in _same_texts(row.to_owner, row.from_owner)]
    proposed = proposals([pk for pair in pairs for pk in pair])
    return {mine: theirs for mine, theirs in pairs if not {mine, theirs} & set(proposed)}


def _same_texts(old: str, new: str) -> list[tuple[UUID, UUID, bool]]:
    with connection.cursor() as cursor:
        cursor.execute(SAME_TEXT, {"old": old, "new": new})
        pairs: list[tuple[UUID, UUID, bool]] = cursor.fetchall()
    return pairs


# -- facts and conversations that both have -----------------------------------------------------------------


def _archive_duplicates(caller: Caller, old: str, new: str) -> list[str]:
    """Archive one of each pair of facts with the same text, and return the ids of the archived ones."""
    pairs = _same_texts(old, new)
    proposed = proposals([pk for mine, theirs, _ in pairs for pk in (mine, theirs)])
    archived: dict[UUID, UUID] = {}
    for mine, theirs, mine_is_wider in pairs:
        gone, stays = (theirs, mine) if mine_is_wider else (mine, theirs)
        if not {mine, theirs} & (set(proposed) | set(archived)):
            archived[gone] = stays
    return _archive(caller, archived)


def _archive(caller: Caller, archived: Mapping[UUID, UUID]) -> list[str]:
    """Archive facts, each with the id of the one that stays, and return the ids of the archived ones."""
    now = timezone.now()
    rows = list(MemoryRecord.objects.select_for_update().filter(pk__in=archived).order_by("pk").defer("search"))
    _keep_revisions(caller, rows, "forget", SAME, now)
    for row in rows:
        row.status = Status.ARCHIVED
        row.updated_at = now
        row.metadata = row.metadata | {DUPLICATE_OF: archived[row.pk].hex}
    MemoryRecord.objects.bulk_update(rows, ["status", "metadata", "updated_at"], batch_size=500)
    note_changes([row.pk for row in rows], by=caller.email)
    return [row.pk.hex for row in rows]


def _restore_duplicates(caller: Caller, row: HandOver) -> None:
    """Give archived facts their earlier state back, unless they were restored or erased, or are still duplicates."""
    ids = [UUID(pk) for pk in row.moved["duplicates"]]
    rows = list(
        MemoryRecord.objects.select_for_update()
        .filter(pk__in=ids, status=Status.ARCHIVED, metadata__has_key=DUPLICATE_OF)
        .defer("search")
    )
    for record in rows:
        if find_duplicate(record):
            continue
        with revised(caller, record, "restore", UNDONE):
            record.metadata = {name: value for name, value in record.metadata.items() if name != DUPLICATE_OF}
            reactivate(record)


def _rename_conversations(old: str, new: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(SAME_CONVERSATION, {"old": old, "new": new})
        conversations = sorted(conversation for (conversation,) in cursor.fetchall())
    for conversation in conversations:
        own = MemoryRecord.objects.filter(created_by=old, conversation_id=conversation)
        own.update(conversation_id=renamed_conversation(conversation, old))
    return conversations


def renamed_conversation(conversation: str, owner: str) -> str:
    suffix = conversation_suffix(owner)
    return conversation[: 200 - len(suffix)] + suffix


def conversation_suffix(owner: str) -> str:
    """Return the ending that tells a handed-over conversation from one of the heir with the same name."""
    return f" of {owner}"[:100]


# -- other rows ---------------------------------------------------------------------------------------------


def _move_rows(
    model: type[Model], owned: PersonColumn, old: str, new: str, ids: Sequence[str] | None = None
) -> tuple[list[str], int]:
    """Move rows, or those of them with these ids. Return the ids of the moved ones, and how many could not be moved."""
    source = owned.owner_value(old)
    target = owned.owner_value(new)
    if source is None or target is None:
        return [], 0
    rows = model._default_manager.select_for_update().filter(**{owned.column: source})
    if ids is not None:
        rows = rows.filter(pk__in=ids)
    existing = model._default_manager.filter(**{owned.column: target})
    taken = set(existing.values_list(*owned.unique)) if owned.unique else set()
    moving = []
    stays = 0
    for pk, *values in rows.order_by("pk").values_list("pk", *(owned.unique or ())):
        if owned.unique is not None and (tuple(values) in taken or (not owned.unique and existing.exists())):
            stays += 1
        else:
            moving.append(pk)
    model._default_manager.filter(pk__in=moving).update(**{owned.column: target})
    return [str(pk) for pk in moving], stays


def describe(counts: Mapping[str, int]) -> str:
    """Return counts by kind as text, for example "memories (3), analyses (1)"."""
    return ", ".join(f"{kind} ({count:,})" for kind, count in counts.items() if count)
