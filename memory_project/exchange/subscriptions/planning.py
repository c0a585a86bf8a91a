"""The plan of a run: what has to change so that the memories are in step with the source. Nothing is written here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal

from memories.models import MemoryRecord, Status
from memory_project.exchange.subscriptions.models import SubscriptionItem
from memory_project.exchange.subscriptions.reading import STAY_IF_UNKNOWN, SourceText, digest

Action = Literal["new", "changed", "renamed", "removed", "unchanged", "conflicting", "refused"]
WRITES: tuple[Action, ...] = ("renamed", "changed", "removed", "new")  # in this order
ERASED = "its memory was erased"
FORGOTTEN = "its memory was forgotten"


@dataclass(frozen=True)
class SyncStep:
    action: Action
    text: SourceText | None
    item: SubscriptionItem | None
    reason: str = ""

    @property
    def place(self) -> str:
        if self.text or not self.item:
            return self.text.place if self.text else ""
        return f"{self.item.path}, part {self.item.number + 1}" if self.item.number else self.item.path


@dataclass
class Plan:
    steps: list[SyncStep] = field(default_factory=list)
    known_files: int = 0
    missing_files: int = 0

    def counts(self) -> dict[str, int]:
        return dict(Counter(step.action for step in self.steps))

    def writes(self) -> list[SyncStep]:
        return sorted(
            (step for step in self.steps if step.action in WRITES), key=lambda step: WRITES.index(step.action)
        )


@dataclass(frozen=True)
class Unread:
    """Files and folders that could not be read, so that whether they still have their texts is unknown."""

    paths: Set[str]
    folders: tuple[str, ...]

    def covers(self, path: str) -> bool:
        return path in self.paths or path.startswith(self.folders)


def persons_version(item: SubscriptionItem) -> str:
    """Return why the memory of an item is no longer what the source said, or "" if nobody has changed it."""
    record = item.record
    if record is None:
        return ERASED if item.text_digest else ""
    if not item.is_ours:
        return ""
    if record.status == Status.ARCHIVED:
        return FORGOTTEN
    if record.status == Status.SUPERSEDED:
        return "its memory was corrected"
    return "its memory was edited" if digest(record.content) != item.text_digest else ""


def plan(items: Iterable[SubscriptionItem], texts: Sequence[SourceText]) -> Plan:
    """Compare the items of a subscription with the texts of its source."""
    known = {item.key: item for item in items}
    by_key = {text.key: text for text in texts}
    vanished = [item for key, item in known.items() if key not in by_key]
    fresh = [text for text in texts if text.key not in known and not text.problem]
    moves = _renamed(vanished, fresh, {text.path for text in texts})
    result = Plan()
    erased = {item.text_digest for item in known.values() if persons_version(item) == ERASED}
    decided = {item.path: persons_version(item) for item in vanished if item.pk not in moves and persons_version(item)}
    moved = {text.key for text in moves.values()}
    for text in texts:
        if text.key not in moved:
            result.steps.append(_step(text, known.get(text.key), erased, decided))
    present = {text.path for text in texts}
    paths = {text.path for text in texts if text.problem}
    unread = Unread(paths, tuple(path for path in paths if path.endswith("/")))
    result.steps += [_vanished_step(item, moves.get(item.pk), unread) for item in vanished]
    removed = {step.item.path for step in result.steps if step.item and step.action == "removed"}
    known_paths = {item.path for item in known.values() if item.record_id and not persons_version(item)}
    result.known_files = len(known_paths)
    result.missing_files = len(removed - present)
    return result


def _step(text: SourceText, item: SubscriptionItem | None, erased: set[str], decided: Mapping[str, str]) -> SyncStep:
    if text.problem:
        return SyncStep("refused", text, item, text.problem)
    if item is None or not item.text_digest:
        if text.text_digest in erased:
            return SyncStep("conflicting", text, item, f"the same text was erased before ({ERASED})")
        if text.path in decided:
            # The file is divided in another way than before. Its new parts may repeat what a person has changed.
            return SyncStep("conflicting", text, item, f"the file has another memory: {decided[text.path]}")
        return SyncStep("new", text, item)
    if reason := persons_version(item):
        return SyncStep("conflicting", text, item, reason)
    if text.text_digest == item.proposed_digest:
        return SyncStep("conflicting", text, item, "a correction of its memory has been proposed for review")
    is_same = text.text_digest == item.text_digest and not changed_fields(text, item)
    return SyncStep("unchanged" if is_same else "changed", text, item)


def changed_fields(text: SourceText, item: SubscriptionItem) -> dict[str, object]:
    """Return the fields that the source has changed, with their new values."""
    new = text.field_digests()
    names = [name for name, value in new.items() if item.field_digests.get(name) != value]
    return {name: text.fields[name] for name in names if text.fields[name] or name not in STAY_IF_UNKNOWN}


def unchanged_by_person(record: MemoryRecord, item: SubscriptionItem, name: str) -> bool:
    return item.field_digests.get(name) in (None, digest(getattr(record, name)))


def _renamed(
    vanished: Sequence[SubscriptionItem], fresh: Sequence[SourceText], present: Set[str]
) -> dict[int, SourceText]:
    """Return the new place of each item that has moved: the same file under another path, or the same text.

    An item whose memory a person has changed does not leave a file that still exists, because its other texts may
    repeat what the person has changed.
    """
    bound = {item.pk for item in vanished if item.path in present and persons_version(item)}
    moves: dict[int, SourceText] = {}
    taken: set[str] = set()
    for marks in (_place_in_file, _text_digest):
        places: dict[object, list[SourceText]] = {}
        for text in reversed(fresh):
            if text.key not in taken:
                places.setdefault(marks(text), []).append(text)
        for item in vanished:
            found = (
                places.get(marks(item)) if item.pk not in moves and item.pk not in bound and item.text_digest else None
            )
            if found:
                moves[item.pk] = found.pop()
                taken.add(moves[item.pk].key)
    return moves


def _place_in_file(part: SubscriptionItem | SourceText) -> object:
    return part.file_digest, part.number


def _text_digest(part: SubscriptionItem | SourceText) -> object:
    return part.text_digest


def _vanished_step(item: SubscriptionItem, new_place: SourceText | None, unread: Unread) -> SyncStep:
    if new_place:
        return SyncStep("renamed", new_place, item)
    if unread.covers(item.path):
        return SyncStep("unchanged", None, item)  # whether the text is gone can't be known
    reason = persons_version(item)
    if reason in (ERASED, FORGOTTEN):  # the item stays, so that the text doesn't come back with its file
        return SyncStep("unchanged", None, item)
    return SyncStep("conflicting" if reason else "removed", None, item, reason)
