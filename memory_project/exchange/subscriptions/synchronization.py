"""A run: read the source, plan, and carry the plan out with the services of memories.

Each step is complete in itself. If the process is killed, the next run plans anew and does what is left. A memory that
was stored without its item is recognized by its text and the origin in its metadata.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Value
from django.utils import timezone

from foundation.database import connections, locks
from foundation.operations.errors import Conflict, DomainError, LimitReached
from foundation.people.caller import Caller
from memories import services
from memories.models import IN_USE, MemoryRecord, Status, Visibility
from memories.models.fields import ContentKey
from memories.operations import Forget, Revise, Supersede
from memories.writing.bulk_import import remember_many
from memories.writing.exact_duplicates import lock_duplicates, normalized_key
from memory_project.exchange.subscriptions import folders, git
from memory_project.exchange.subscriptions.models import (
    OPEN_RUNS,
    ItemState,
    RunState,
    Subscription,
    SubscriptionItem,
    SubscriptionKind,
    SubscriptionRun,
)
from memory_project.exchange.subscriptions.planning import Plan, SyncStep, changed_fields, plan, unchanged_by_person
from memory_project.exchange.subscriptions.reading import FOLLOWED, STAY_IF_UNKNOWN, SourceText, digest, texts

MAX_REMOVED = 0.5  # share of the known files that may be missing in a run; with more, it waits for a confirmation

ORIGIN = "origin"  # metadata key of a memory from a source
BATCH = 200  # new memories that are stored at a time
REPORTED = 200  # steps that the report of a run lists
MAX_REASON = 500  # characters of a reason
SECONDS = 480  # after which a run ends and leaves the rest to the next one; less than the timeout of the queue


@dataclass(frozen=True)
class SyncContext:
    """What the steps of a run need."""

    caller: Caller
    subscription: Subscription
    version: str  # the commit, or "" for folders

    def version_of(self, text: SourceText) -> str:
        return self.version or text.file_digest

    def origin(self, text: SourceText) -> dict[str, str]:
        return {"subscription": self.subscription.pk.hex, "path": text.path, "version": self.version_of(text)}


def synchronize(caller: Caller, *, row: SubscriptionRun) -> SubscriptionRun:
    """Carry out a queued run. Its outcome, also an error of the source, is stored in the row.

    Raises Conflict if another run of the subscription is in progress.
    """
    busy = Conflict("Another run of this subscription is in progress", field="id")
    with locks.exclusive("subscription", row.subscription_id, busy):
        _end_interrupted(row)
        _update(row, state=RunState.RUNNING, started_at=timezone.now())
        try:
            _run(caller, row)
        except locks.LeaseLost:  # another worker may carry out a run by now
            raise
        except DomainError as error:
            _update(row, state=RunState.FAILED, error=error.message[:1_000], finished_at=timezone.now())
        except BaseException:
            _update(row, state=RunState.FAILED, error="stopped by a defect; the log has the details")
            raise
    return row


def _run(caller: Caller, row: SubscriptionRun) -> None:
    subscription = row.subscription
    found, version = _read(subscription)
    _adopt_successors(subscription)
    result = plan(subscription.items.select_related("record").defer("record__search"), found)
    changes = result.writes()
    values: dict[str, Any] = {
        "version": version,
        "counts": result.counts(),
        "missing_files": result.missing_files,
        "report": _report(result),
        "total": len(changes),
    }
    if row.is_plan:
        _update(row, **values, state=RunState.DONE, finished_at=timezone.now())
        return
    if problem := _removes_too_much(result, row.removals_confirmed):
        _update(row, **values, state=RunState.HELD, error=problem, finished_at=timezone.now())
        return
    _update(row, **values)
    problems = _carry_out(SyncContext(caller, subscription, version), row, result)
    counts = Counter(result.counts()) + Counter(line["what"] for line in problems)
    report = [*problems, *row.report][:REPORTED]
    _update(row, counts=dict(counts), report=report, state=RunState.DONE, finished_at=timezone.now())


def _read(subscription: Subscription) -> tuple[list[SourceText], str]:
    if subscription.kind == SubscriptionKind.FOLDER:
        return texts(folders.files(subscription.location, subscription.subfolder)), ""
    connections.close_if_pooled()  # hold no database connection while waiting for another server
    checkout = git.fetch(subscription.pk, subscription.location, subscription.branch)
    return texts(checkout.files(subscription.subfolder)), checkout.commit


def _removes_too_much(result: Plan, confirmed: int) -> str:
    if result.missing_files <= max(confirmed, MAX_REMOVED * result.known_files):
        return ""
    return (
        f"{result.missing_files:,} of {result.known_files:,} known files are missing. Nothing was changed. Check the"
        f" source. To forget their memories, confirm a run with {result.missing_files} removals"
    )


def _carry_out(context: SyncContext, row: SubscriptionRun, result: Plan) -> list[dict[str, str]]:
    """Carry out the changes, and note conflicts and refusals in the items. Return new ones, for the report."""
    _save_conflicts_and_refusals(
        context, [step for step in result.steps if step.action in ("conflicting", "refused", "unchanged")]
    )
    changes = result.writes()
    problems: list[dict[str, str]] = []
    deadline = time.monotonic() + SECONDS
    new = [step for step in changes if step.action == "new"]
    for number, step in enumerate(changes[: len(changes) - len(new)], 1):
        locks.check()
        problems += _attempt(context, step)
        _check_progress(row, number, deadline, every=20)
    for start in range(0, len(new), BATCH):
        locks.check()
        batch = new[start : start + BATCH]
        problems += _remember(context, batch)
        _check_progress(row, len(changes) - len(new) + start + len(batch), deadline)
    return problems


def _check_progress(row: SubscriptionRun, done: int, deadline: float, every: int = 1) -> None:
    if done % every == 0 or done == row.total:
        _update(row, done=done)
    if time.monotonic() > deadline and done < row.total:
        raise LimitReached(f"The run took more than {SECONDS // 60} minutes. The next run continues")


# -- steps -------------------------------------------------------------------------------------------------


def _attempt(context: SyncContext, step: SyncStep) -> list[dict[str, str]]:
    """Carry out a step about an existing item. Return a line for the report if it was refused or met a conflict."""
    item = step.item
    conflict = ""
    assert item is not None
    try:
        if step.action == "removed":
            _forget(context, item)
        elif step.text and step.action == "renamed":
            _rename(context, item, step.text)
        elif step.text:
            conflict = _change(context, item, step.text)
    except DomainError as error:
        _save(item, state=ItemState.REFUSED, reason=error.message[:MAX_REASON])
        return [_line("refused", step, error.message)]
    return [_line("conflicting", step, conflict)] if conflict else []


def _remember(context: SyncContext, steps: Sequence[SyncStep]) -> list[dict[str, str]]:
    """Store new memories and their items. Return what was refused."""
    pairs = [(step, step.text) for step in steps if step.text]
    facts = _facts(context, [text for _, text in pairs])
    try:
        stored = remember_many(context.caller, facts=facts)
    except DomainError as error:
        return [_line("refused", step, error.message) for step in steps]
    items = [
        SubscriptionItem(
            pk=None if step.item is None else step.item.pk,
            subscription=context.subscription,
            owner=context.caller.email,
            key=text.key,
            **_taken_over(context, text, record, is_ours=not existing or _is_from(context.subscription, record)),
        )
        for (step, text), (record, existing) in zip(pairs, stored, strict=True)
    ]
    with transaction.atomic():
        SubscriptionItem.objects.bulk_create(
            [item for item, step in zip(items, steps, strict=True) if step.item is None]
        )
        for item, step in zip(items, steps, strict=True):
            if step.item is not None:
                item.save(force_update=True)
    return []


def _facts(
    context: SyncContext, found: Sequence[SourceText], replaced: MemoryRecord | None = None
) -> list[dict[str, Any]]:
    """Return the fields of new memories. `replaced` is the memory of a source that had the earlier text of their place.

    A new memory is private if the owner has made this one private, or one that has or had the same text from a source.
    """
    keys = [ContentKey(Value(text.fields["content"])) for text in found]
    rows = MemoryRecord.objects.filter(created_by=context.caller.email, persona=context.caller.persona)
    rows = rows.filter(content_key__in=keys, visibility=Visibility.PRIVATE, metadata__has_key=ORIGIN)
    private = set(map(normalized_key, rows.values_list("content", flat=True)))
    edited = context.subscription.items.filter(record__visibility=Visibility.PRIVATE, is_ours=True)
    earlier = set(edited.values_list("text_digest", flat=True))
    was_private = replaced is not None and replaced.visibility == Visibility.PRIVATE
    facts = []
    for text in found:
        is_private = was_private or text.text_digest in earlier or normalized_key(text.fields["content"]) in private
        visibility = Visibility.PRIVATE.value if is_private else context.subscription.visibility
        facts.append({**text.fields, "metadata": _metadata(context, text), "visibility": visibility})
    return facts


def _metadata(context: SyncContext, text: SourceText) -> dict[str, Any]:
    return {**text.fields["metadata"], ORIGIN: context.origin(text)}


def _taken_over(
    context: SyncContext,
    text: SourceText,
    record: MemoryRecord,
    *,
    is_ours: bool = True,
    unknown: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the columns of the item of a text that is now the text of a memory.

    `unknown` are values of the memory that stay if the text has none.
    """
    kept = {name: digest(value) for name, value in (unknown or {}).items() if not text.fields[name]}
    return {
        "path": text.path,
        "number": text.number,
        "file_digest": text.file_digest,
        "text_digest": text.text_digest,
        "field_digests": text.field_digests() | kept,
        "record": record,
        "is_ours": is_ours,
        "proposal": None,
        "proposed_digest": "",
        "state": ItemState.KEPT,
        "reason": "",
        "version": context.version_of(text),
        "updated_at": timezone.now(),
    }


def _change(context: SyncContext, item: SubscriptionItem, text: SourceText) -> str:
    """Return which changes of the source a person's changes prevent, or ""."""
    record = item.record
    if (
        record is None
        or not item.is_ours
        or _items_with_same_memory(item).exists()
        or _is_remembered(context, text, record)
    ):
        # The earlier or the new text is also somebody's own, or another file's.
        [(stored, existing)] = remember_many(
            context.caller, facts=_facts(context, [text], record if item.is_ours else None)
        )
        _give_up(context, item, f"the source has a text that is remembered already ({item.path})")
        _save(
            item, **_taken_over(context, text, stored, is_ours=not existing or _is_from(context.subscription, stored))
        )
        return ""
    changed = changed_fields(text, item)
    fields = {name: value for name, value in changed.items() if unchanged_by_person(record, item, name)}
    values = {
        "record_id": record.pk,
        **fields,
        "metadata": _metadata(context, text),
        "reason": f"changed in {text.path}",
    }
    if text.text_digest == item.text_digest:
        new, pending = _revise(context, values)
    else:
        values["content"] = text.fields["content"]
        correction = services.supersede(context.caller, Supersede.read(values))
        new = correction.record
        pending = "" if correction.record.supersedes_id else correction.note
    if pending:  # a curator has approved the memory, so the change waits for approval
        proposal = new.pk if new.pk != record.pk else None
        _save(
            item,
            state=ItemState.CONFLICTING,
            reason=pending[:MAX_REASON],
            proposal=proposal,
            proposed_digest=text.text_digest if proposal else "",
        )
        return pending
    _save(item, **_taken_over(context, text, new, unknown={name: getattr(record, name) for name in STAY_IF_UNKNOWN}))
    kept = sorted(changed.keys() - fields.keys())
    return f"a person has changed its {', '.join(kept)}" if kept else ""


def _is_remembered(context: SyncContext, text: SourceText, record: MemoryRecord) -> bool:
    """Return whether another memory of the owner has the text that a memory is to get."""
    content = text.fields["content"]
    if normalized_key(record.content) == normalized_key(content):
        return False
    with transaction.atomic():
        existing = lock_duplicates(context.caller, [content]).get(normalized_key(content))
    return existing is not None and existing.pk != record.pk


def _revise(context: SyncContext, values: dict[str, Any]) -> tuple[MemoryRecord, str]:
    revised = services.revise(context.caller, Revise.read(values))
    return revised, revised.pending_message


def _rename(context: SyncContext, item: SubscriptionItem, text: SourceText) -> None:
    """Give the item its new place. The memory gets the new origin unless a person has changed it."""
    record = item.record
    place = {"path": text.path, "key": text.key, "number": text.number, "file_digest": text.file_digest}
    is_living = record is not None and record.status in IN_USE
    is_unchanged = record is not None and is_living and digest(record.content) == item.text_digest
    if record is None or not item.is_ours or not is_unchanged:
        _save(item, **place)
        return
    values = {"record_id": record.pk, "metadata": _metadata(context, text), "reason": f"renamed to {text.path}"}
    if text.text_digest != item.text_digest:  # the name of the file is the title of a text without headings
        values["content"] = text.fields["content"]
    _, pending = _revise(context, values)
    if pending:
        _save(item, **place, state=ItemState.CONFLICTING, reason=pending[:MAX_REASON])
        return
    _save(item, **place, text_digest=text.text_digest, version=context.version_of(text))


def _forget(context: SyncContext, item: SubscriptionItem) -> None:
    with transaction.atomic():
        _give_up(context, item, f"removed from the source ({item.path})")
        item.delete()


def forget_all(caller: Caller, subscription: Subscription) -> int:
    """Forget the memories of a subscription that nobody has changed. Return their number."""
    context = SyncContext(caller, subscription, "")
    kept = subscription.items.filter(is_ours=True, record__status__in=IN_USE)
    count = 0
    for item in kept.select_related("record").defer("record__search"):
        if item.record is not None and digest(item.record.content) == item.text_digest:
            _forget(context, item)
            count += 1
    return count


def _give_up(context: SyncContext, item: SubscriptionItem, reason: str) -> None:
    """Transfer the memory of an item to another item that has it, too, or forget it."""
    if item.record is None or not item.is_ours:
        return
    other = _items_with_same_memory(item).first()
    if other is not None:
        _save(other, is_ours=True)
    else:
        services.forget(context.caller, Forget(record_id=item.record.pk, reason=reason))


def _items_with_same_memory(item: SubscriptionItem) -> Any:
    return SubscriptionItem.objects.filter(record=item.record_id, owner=item.owner).exclude(pk=item.pk)


# -- items and runs ------------------------------------------------------------------------------------------


def _adopt_successors(subscription: Subscription) -> None:
    """Continue with corrections that earlier runs have made: those that were approved, and those of a killed run."""
    for item in subscription.items.filter(record__status=Status.SUPERSEDED).select_related("record"):
        following = item.record and item.record.superseded_by
        successor = MemoryRecord.objects.filter(pk=following).first() if following else None
        if successor and (successor.pk == item.proposal or _is_from(subscription, successor)):
            _save(
                item,
                record=successor,
                text_digest=digest(successor.content),
                field_digests={name: digest(getattr(successor, name)) for name in FOLLOWED},
                proposal=None,
                proposed_digest="",
            )


def _is_from(subscription: Subscription, record: MemoryRecord) -> bool:
    origin = record.metadata.get(ORIGIN)
    return isinstance(origin, dict) and origin.get("subscription") == subscription.pk.hex and not record.edited_by


def _save_conflicts_and_refusals(context: SyncContext, steps: Sequence[SyncStep]) -> None:
    """Store conflicts and refusals in the items. A text that was never taken over gets an item for it."""
    new = []
    for step in steps:
        state = {"conflicting": ItemState.CONFLICTING, "refused": ItemState.REFUSED}.get(step.action, ItemState.KEPT)
        values: dict[str, Any] = {"state": state, "reason": step.reason[:MAX_REASON]}
        if step.text is not None:  # the file as it is now, so that it is recognized when it is renamed
            values |= {"number": step.text.number, "file_digest": step.text.file_digest}
        if step.item is None and step.text is not None:
            place = {"key": step.text.key, "path": step.text.path, "owner": context.caller.email}
            new.append(SubscriptionItem(subscription=context.subscription, **place, **values))
        elif step.item is not None and any(getattr(step.item, name) != value for name, value in values.items()):
            _save(step.item, **values)
    SubscriptionItem.objects.bulk_create(new, batch_size=500)


def _save(item: SubscriptionItem, **values: Any) -> None:
    for name, value in {**values, "updated_at": timezone.now()}.items():
        setattr(item, name, value)
    item.save(update_fields={*values, "updated_at"})


def _update(row: SubscriptionRun, **values: Any) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    SubscriptionRun.objects.filter(pk=row.pk).update(**values)


def _end_interrupted(row: SubscriptionRun) -> None:
    """Mark runs that were killed as failed. None is in progress, because this one holds the lock."""
    earlier = SubscriptionRun.objects.filter(subscription=row.subscription_id, state__in=OPEN_RUNS)
    earlier.exclude(pk=row.pk).filter(started_at__lte=row.started_at).update(
        state=RunState.FAILED, error="was interrupted; a later run continued", finished_at=timezone.now()
    )


def _report(result: Plan) -> list[dict[str, str]]:
    order = ("conflicting", "refused", "removed", "changed", "renamed", "new")
    steps = [step for step in result.steps if step.action in order]
    steps.sort(key=lambda step: order.index(step.action))
    return [_line(step.action, step, step.reason) for step in steps[:REPORTED]]


def _line(action: str, step: SyncStep, reason: str) -> dict[str, str]:
    return {"what": action, "text": step.place, **({"why": reason[:MAX_REASON]} if reason else {})}
