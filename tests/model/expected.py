"""The rules that the product must obey, in plain Python: who sees what, which memory is current, and what is stale.

Nothing here imports the product. memories.py and reviews.py say what each verb may do and what it changes. Names of
memories (m1), people and entities (orders) are those of the stories that a failing test prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.model.entities import Entity, Snapshot

ALLOWED = "allowed"  # among refusals: the rules leave open whether the verb is refused
FORBIDDEN, NOT_FOUND, CONFLICT, UNAVAILABLE, INVALID = "forbidden", "not_found", "conflict", "upstream", "invalid"


@dataclass(frozen=True)
class Person:
    name: str
    personas: tuple[str, ...]  # the first is the active one
    is_curator: bool = False
    is_admin: bool = False

    def curates(self, persona: str) -> bool:
        return self.is_admin or (self.is_curator and persona in self.personas)


PEOPLE = (
    Person("alice", ("sales",)),
    Person("bob", ("sales", "supply")),
    Person("olga", ("supply",)),
    Person("cora", ("sales",), is_curator=True),
    Person("sven", ("supply",), is_curator=True),
    Person("cleo", ("sales", "supply"), is_curator=True),
    Person("ada", ("sales",), is_curator=True, is_admin=True),
)


# -- memories ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A text that may name a column of an entity: as a plain word, in backticks, or as table.column."""

    number: int
    entity: str = ""
    column: str = ""
    style: str = ""  # plain, backticks or dotted

    def __str__(self) -> str:
        written = {"plain": self.column, "backticks": f"`{self.column}`", "dotted": f"{self.entity}.{self.column}"}
        return f"Fact number {self.number} says: {written.get(self.style, 'nothing')} has to be read with care."

    def names_unmistakably(self, column: str) -> bool:
        is_identifier = "_" in column or column != column.lower()
        return column == self.column and (self.style in ("backticks", "dotted") or is_identifier)


@dataclass
class Baseline:
    """State of an entity when the memory was written or verified. `snapshot` is None if nobody can know it."""

    snapshot: Snapshot | None
    pending: bool = False  # the catalog was unavailable; taken when it is back
    unsure: bool = False  # taken at this moment or at the next check


@dataclass
class Mark:
    """A reader's mark as wrong. It counts until it is withdrawn, or the memory is verified or its text is edited."""

    counts_alone: bool  # a mark of the owner, a curator or an admin; of other readers, it takes two
    counts: bool = True  # false if a reader from another persona made it, who is no curator
    was_second: bool = False  # with another one; after that is withdrawn, the rules leave open whether it counts
    in_force: bool = True


@dataclass(frozen=True)
class Verified:
    """A verification of one version of a memory. It counts for everyone if a second person made it."""

    by: str
    version: tuple[Any, ...]
    is_own: bool  # its author owned the memory then, or had written its text


@dataclass
class Last:
    """The last change of a memory, and what it was before."""

    change: str
    by: str
    before: dict[str, Any]
    sure: bool = True  # False: something that may count as a later change has happened


@dataclass
class Insight:
    state: str  # pending, approved, applied, rejected or superseded
    wanted: str
    replaces: str = ""  # the memory that its author named
    beside: str = ""  # its author's memory with the same text when it was captured
    changeset: str = ""
    reviewed_by: str = ""
    pending_edit: dict[str, Any] = field(default_factory=dict)
    edit_by: str = ""
    edit_decided: bool = False  # the last decision approved or rejected an edit
    rollbacks: int = 0  # number of its changesets that were rolled back


@dataclass
class Check:
    """A query that proves a memory, and how often it has failed in a row."""

    holds: bool = True  # whether it would pass now
    failures: int = 0


@dataclass
class Memory:
    name: str
    owner: str
    persona: str
    visibility: str
    text: Text
    entities: list[str]
    columns: dict[str, set[str]]  # entity → columns that the memory lists
    scope: str = ""  # in which it is true
    state: str = "living"  # or superseded, archived
    ends: str = ""  # or past, later
    supersedes: str = ""
    superseded_by: str = ""
    baselines: dict[str, Baseline] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)  # entities whose difference the last comparison saw
    marks: dict[str, Mark] = field(default_factory=dict)
    verified: list[Verified] = field(default_factory=list)
    edited_by: str = ""  # who wrote the text, if this is not the owner
    last: Last | None = None
    insight: Insight | None = None
    unsettled: bool = False  # stale or active, until the next check decides
    shown: str = ""  # the status that an unsettled memory was seen with
    link_unsure: bool = False  # the rules don't say what it supersedes
    asked: bool = False  # it is an open question what it is about
    attachment: str = "automatic"
    is_caveat: bool = True  # answers to interviews are of another category
    waived_by: str = ""  # who said that it does not hold for what is derived from its subject
    waived_text: Text | None = None  # the text at that time

    @property
    def is_waived(self) -> bool:
        return self.waived_text == self.text

    check: Check | None = None

    @property
    def marked_wrong(self) -> bool | None:
        marks = [mark for mark in self.marks.values() if mark.in_force and mark.counts]
        if len(marks) > 1 or any(mark.counts_alone for mark in marks):
            return True
        return None if any(mark.was_second for mark in marks) else False

    @property
    def version(self) -> tuple[Any, ...]:
        """What a verification is about: text, entities, columns and readers."""
        columns = tuple((entity, tuple(sorted(names))) for entity, names in self.columns.items())
        readers = self.visibility, self.persona if self.visibility == "persona" else ""
        return str(self.text), tuple(self.entities), columns, readers

    @property
    def is_verified(self) -> bool:
        """Return whether a second person has verified it as it is now."""
        current = [each for each in self.verified if each.version == self.version and not each.is_own]
        return any(each.by != self.owner for each in current)

    @property
    def status(self) -> str:
        if self.state != "living":
            return self.state
        if self.is_refuted:
            return "stale"
        return self.shown or ("stale" if self.seen or self.marked_wrong else "active")

    @property
    def is_refuted(self) -> bool:
        return self.check is not None and self.check.failures > 1

    @property
    def is_living(self) -> bool:
        return self.state == "living"

    @property
    def subjects(self) -> list[str]:
        return list(dict.fromkeys([*self.entities, *self.columns]))

    @property
    def is_in_force(self) -> bool:
        return self.insight is not None and self.insight.state in ("approved", "applied")

    def changed(self, change: str = "", by: str = "", **before: Any) -> None:
        self.last = Last(change, by, before)


@dataclass
class Change:
    place: str
    value: Any
    before: Any
    outcome: str  # landed, noop, sending, planned or conflict


@dataclass
class Changeset:
    name: str
    entity: str
    personas: set[str]
    changes: list[Change]
    state: str = "applied"  # or partial, failed, rolled_back, waiting, declined
    proposed_by: str = ""


@dataclass
class Expected:
    """Everything that the product should say now."""

    entities: dict[str, Entity]
    memories: dict[str, Memory] = field(default_factory=dict)
    changesets: dict[str, Changeset] = field(default_factory=dict)
    proposals: set[tuple[str, ...]] = field(default_factory=set)  # verdicts for others: by whom, on which texts
    available: bool = True  # the catalog
    texts: int = 0
    written: int = 0  # memories so far, including erased ones
    applied: int = 0  # changesets so far
    questions: dict[str, Any] = field(default_factory=dict)  # of interviews (interviews.py)

    def new_text(self, entity: str = "", column: str = "", style: str = "") -> Text:
        self.texts += 1
        return Text(self.texts, entity, column, style)

    def add(self, memory: Memory) -> Memory:
        self.written += 1
        memory.name = f"m{self.written}"
        self.memories[memory.name] = memory
        self.take_baselines(memory, memory.subjects)
        return memory

    def is_told(self, text: Text) -> bool:
        """Return whether a text names one entity of the catalog, so that nobody is asked what it is about."""
        return text.style == "dotted" and self.entities[text.entity].exists

    # -- who sees what ----------------------------------------------------------------------------------------

    def sees(self, person: Person, memory: Memory) -> bool:
        shared = memory.visibility == "persona" and memory.persona in person.personas
        return person.is_admin or memory.owner == person.name or memory.visibility == "everyone" or shared

    def sees_insight(self, person: Person, memory: Memory) -> bool:
        return self.sees(person, memory) or person.curates(memory.persona)

    def owns(self, person: Person, memory: Memory) -> bool:
        return person.is_admin or memory.owner == person.name

    def decides(self, person: Person, memory: Memory) -> bool:
        """Curators decide about stale memories that are shared."""
        is_up_for_review = memory.status == "stale" and memory.visibility != "private"
        return self.owns(person, memory) or (is_up_for_review and person.curates(memory.persona))

    def recalled(self, person: Person) -> list[Memory]:
        """Active memories that have not ended, and that the person may see and has not marked as wrong."""
        rows = [m for m in self.memories.values() if m.ends != "past"]
        return [m for m in rows if m.status == "active" and self.sees(person, m) and person.name not in m.marks]

    # -- what is stale ----------------------------------------------------------------------------------------

    def take_baselines(self, memory: Memory, entities: Iterable[str]) -> None:
        """Replace the baselines of these entities, now or when the catalog is available again."""
        for name in entities:
            old = memory.baselines.get(name)
            earlier = old.snapshot if old else None
            now = self.entities[name].snapshot()
            memory.baselines[name] = Baseline(now) if self.available else Baseline(earlier, pending=True)
            memory.seen.discard(name)

    def differs(self, memory: Memory, name: str) -> bool | None:
        """Return whether an entity has changed in a way that makes the memory stale. None means that nobody knows."""
        baseline, now = memory.baselines[name], self.entities[name].snapshot()
        before = baseline.snapshot
        if before is None:
            return None
        if baseline.unsure and before != now:
            return None
        if not before.exists:
            return False
        if not now.exists or (now.deprecated and not before.deprecated):
            return True
        listed = memory.columns.get(name, set())
        changed = {column[0] for column in {*before.columns} ^ {*now.columns}}
        removed = {column[0] for column in before.columns} - {column[0] for column in now.columns}
        return bool(changed & listed) or any(memory.text.names_unmistakably(column) for column in removed)

    def compare(self, memory: Memory) -> None:
        """Compare a living memory with the catalog as it is now, for all its entities."""
        status = memory.status
        self.take_first_baselines(memory, unsure=False)
        answers = {name: self.differs(memory, name) for name in memory.baselines}
        memory.seen = {name for name, answer in answers.items() if answer}
        self._settle(memory, status, bool(memory.seen) or None not in answers.values())

    def is_due(self, memory: Memory) -> bool:
        """Return whether the next check will find the memory stale, as far as anybody knows."""
        return (
            memory.marked_wrong is True
            or memory.is_refuted
            or any(self.differs(memory, name) for name in memory.baselines)
        )

    def _settle(self, memory: Memory, status: str, is_known: bool) -> None:
        memory.unsettled = not is_known or (memory.marked_wrong is None and not memory.seen)
        memory.shown = ""
        if memory.last and memory.unsettled:
            memory.last.sure = False
        if memory.status != status:
            memory.changed()

    def take_first_baselines(self, memory: Memory, *, unsure: bool, besides: Iterable[str] = ()) -> None:
        """An entity that the catalog did not have when the baseline was taken gets one when it appears."""
        for name, baseline in memory.baselines.items():
            now = self.entities[name].snapshot()
            is_first = baseline.snapshot and not baseline.snapshot.exists and now.exists and name not in besides
            if is_first:
                memory.baselines[name] = Baseline(now, unsure=unsure)

    def check(self) -> None:
        """The scheduled check: take pending baselines and compare every living memory."""
        if not self.available:
            return
        for memory in self.memories.values():
            for name, baseline in memory.baselines.items():
                now = self.entities[name].snapshot()
                if baseline.pending:  # of a memory that is not living, the check need not take it
                    memory.baselines[name] = Baseline(now if memory.is_living else None)
                elif baseline.unsure:
                    known = baseline.snapshot if baseline.snapshot == now else None
                    memory.baselines[name] = Baseline(known, unsure=not memory.is_living)
            if memory.is_living:
                self.compare(memory)

    def compare_after_write(self, written: set[str]) -> None:
        """After our own writes, memories about these entities are compared, maybe also for their other entities."""
        if not self.available:
            return
        for memory in self.memories.values():
            if not memory.is_living or not written & set(memory.baselines):
                continue
            status, was_unsettled = memory.status, memory.unsettled
            self.take_first_baselines(memory, unsure=True, besides=written)
            answers = {name: self.differs(memory, name) for name in memory.baselines}
            full = {name for name, answer in answers.items() if answer}
            partial = (full & written) | (memory.seen - written)
            is_known = bool(full & written) or not (was_unsettled or None in answers.values())
            memory.seen = full
            self._settle(memory, status, is_known and bool(full) == bool(partial))

    def our_own(self, memory: Memory, name: str, before: Snapshot, after: Snapshot) -> None:
        """A changeset's writes do not make its own insights stale. Older differences still do."""
        baseline = memory.baselines.get(name)
        earlier = baseline.snapshot if baseline else None
        if baseline and earlier and earlier.exists and earlier.deprecated == before.deprecated:
            memory.baselines[name] = replace(baseline, snapshot=replace(earlier, deprecated=after.deprecated))

    def come_back(self, memory: Memory) -> bool:
        """A memory that becomes living again gets back its earlier state, and is compared at once if possible.

        Return whether it certainly has that earlier state after the comparison.
        """
        memory.state, memory.superseded_by = "living", ""
        earlier = memory.status
        if self.available:
            self.compare(memory)
        return memory.status == earlier and not memory.unsettled

    def freshly_stated(self, memory: Memory, *, baselines: bool = True) -> None:
        """A verification, or an edit of the text: all earlier doubts are settled."""
        if baselines:
            self.take_baselines(memory, memory.subjects)
        memory.seen, memory.unsettled, memory.shown = set(), False, ""
        if memory.check:
            memory.check.failures = 0
        for mark in memory.marks.values():
            mark.in_force = False
        if self.available:
            self.compare(memory)

    # -- chains -----------------------------------------------------------------------------------------------

    def corrections(self, memory: Memory) -> list[Memory]:
        return [other for other in self.memories.values() if other.supersedes == memory.name]

    def nearest_correction(self, memory: Memory) -> Memory | None:
        """Return the nearest correction that is not archived, looking through archived ones."""
        layer = [memory]
        while layer:
            layer = [correction for each in layer for correction in self.corrections(each)]
            for correction in layer:
                if correction.state != "archived":
                    return correction
        return None

    def chain(self, memory: Memory) -> list[Memory]:
        """Return all other memories that are linked with this one."""
        found, open_ = {memory.name}, [memory]
        while open_:
            current = open_.pop()
            linked = self.corrections(current)
            linked += [self.memories[current.supersedes]] if current.supersedes else []
            for other in linked:
                if other.name not in found:
                    found.add(other.name)
                    open_.append(other)
        return [self.memories[name] for name in found - {memory.name}]

    def plain_memory(self, text: Text, owner: str, persona: str, besides: Memory | None = None) -> Memory | None:
        """Return the living memory with this text, owner and persona that is no insight."""
        for other in self.memories.values():
            is_same = (other.text, other.owner, other.persona) == (text, owner, persona)
            if is_same and other is not besides and other.is_living and other.insight is None:
                return other
        return None

    def duplicate(self, memory: Memory, persona: str = "") -> Memory | None:
        """Return another living plain memory with the same text, owner and persona. Insights are exempt."""
        if memory.insight:
            return None
        return self.plain_memory(memory.text, memory.owner, persona or memory.persona, besides=memory)

    def is_remembered(self, person: Person, memory: Memory, text: Text) -> bool:
        """Return whether another plain memory of the owner, which the person sees, has the text."""
        twins = [m for m in self.memories.values() if m.text == text and m.owner == memory.owner and m is not memory]
        twins = [m for m in twins if m.persona == memory.persona and m.is_living and m.insight is None]
        return any(self.sees(person, m) for m in twins)

    def has_rival(self, memory: Memory) -> bool:
        """Return whether another living insight has the same text. The rules don't say whether one may return then."""
        others = [m for m in self.memories.values() if m.insight and m.is_living and m is not memory]
        return memory.insight is not None and any(other.text == memory.text for other in others)

    def why(self, memory: Memory) -> str:
        causes = [f"{name} has changed" for name in sorted(memory.seen)]
        causes += ["it was marked as wrong"] if memory.marked_wrong else []
        causes += ["its check failed twice"] if memory.is_refuted else []
        return ", ".join(causes) or "nothing speaks against it"


def copied(memory: Memory) -> dict[str, Any]:
    """Return what a verification replaces."""
    return {
        "baselines": deepcopy(memory.baselines),
        "seen": set(memory.seen),
        "marks": deepcopy(memory.marks),
        "unsettled": memory.unsettled,
        "shown": memory.shown,
        "check": deepcopy(memory.check),
    }
