"""Random stories: hypothesis chooses who does what to which memory, and shortens a story that fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from foundation.people.caller import Caller
from tests.model import interviews, memories
from tests.model.bulk import ACTS
from tests.model.caveats import ATTACHMENTS
from tests.model.entities import Entity, catalog
from tests.model.expected import PEOPLE, Memory, Text
from tests.model.scopes import SCOPES
from tests.model.shortening import shortest
from tests.model.story import Story
from tests.model.telling import Differs

Item = TypeVar("Item")
AUTHORS = [person for person in PEOPLE if not person.is_curator]
CURATORS = [person for person in PEOPLE if person.is_curator]
VISIBILITIES = ("persona", "everyone", "private")
STYLES = ("", "", "plain", "backticks", "dotted")
KINDS = (("NUMBER", False), ("VARCHAR", True), ("VARCHAR", False))

anything = st.integers(0, 59)  # shrinks to the first of what can be chosen
visibility = st.sampled_from(VISIBILITIES)
about = st.lists(st.sampled_from(("orders", "refunds", "plans", "drafts")), min_size=1, max_size=3, unique=True)


def chosen(items: Sequence[Item], number: int) -> Item:
    return items[number % len(items)]


class Stories(RuleBasedStateMachine):
    callers: dict[str, Caller] = {}  # set before the machine runs

    def __init__(self) -> None:
        super().__init__()
        self.story = Story(self.callers)

    def teardown(self) -> None:
        try:
            if not self.story.has_failed:
                self.story.tell("end")
        finally:
            self.story.close()

    # -- choosing -------------------------------------------------------------------------------------------

    def memories(self, *states: str, insight: bool | None = None) -> list[Memory]:
        rows = self.story.e.memories.values()
        kinds = (True, False) if insight is None else (insight,)
        return [m for m in rows if (not states or m.state in states) and (m.insight is not None) in kinds]

    def insights(self, *states: str) -> list[Memory]:
        return [m for m in self.memories(insight=True) if m.insight and m.insight.state in states]

    def has(self, *states: str) -> bool:
        return bool(self.memories(*states))

    def owner(self, m: Memory, number: int) -> str:
        """Mostly the owner, sometimes anybody."""
        return chosen([m.owner] * 10 + [person.name for person in PEOPLE], number)

    def curator(self, m: Memory, number: int) -> str:
        """Mostly a curator who may decide, sometimes anybody."""
        able = [person.name for person in CURATORS if person.curates(m.persona) and person.name != m.owner]
        return chosen(able * 5 + [person.name for person in PEOPLE], number)

    def text(self, entities: list[str], number: int) -> Text:
        style, entity = chosen(STYLES, number), self.story.e.entities[chosen(entities, number)]
        if not style:
            return self.story.e.new_text()
        return self.story.e.new_text(entity.name, chosen(sorted(entity.columns), number // len(STYLES)), style)

    def listed(self, entities: list[str], number: int) -> dict[str, set[str]]:
        entity = self.story.e.entities[chosen(entities, number)]
        return {entity.name: {chosen(sorted(entity.columns), number // 3)}} if number % 3 else {}

    # -- memories -------------------------------------------------------------------------------------------

    @rule(who=st.sampled_from(AUTHORS), entities=about, visible=visibility, n=anything, k=anything)
    def remember(self, who: Any, entities: list[str], visible: str, n: int, k: int) -> None:
        text = self.text(entities, n)
        self.story.tell("remember", who.name, entities, text=text, visibility=visible, columns=self.listed(entities, k))

    @rule(who=st.sampled_from(AUTHORS), visible=visibility)
    def remember_without_entities(self, who: Any, visible: str) -> None:
        self.story.tell("remember", who.name, [], visibility=visible)

    @precondition(lambda self: any(m.asked for m in self.memories()))
    @rule(n=anything, who=anything, entities=about, k=anything)
    def settle(self, n: int, who: int, entities: list[str], k: int) -> None:
        m = chosen([m for m in self.memories() if m.asked] * 4 + self.memories(), n)
        self.story.tell("settle", self.owner(m, who), m.name, entities if k % 3 else [])

    @precondition(lambda self: self.memories(insight=False))
    @rule(n=anything)
    def remember_the_same(self, n: int) -> None:
        m = chosen(self.memories(insight=False), n)
        owner = next(person for person in PEOPLE if person.name == m.owner)
        known = memories.existing(self.story.e, owner, m.text)
        if m.persona == owner.personas[0] and (known or not self.twins(m)):
            self.story.tell("remember", owner.name, m.entities, text=m.text, visibility=m.visibility)

    def twins(self, m: Memory) -> list[Memory]:
        return [other for other in self.memories("living") if other.text == m.text and other is not m]

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, kind=st.sampled_from(("text", "entities", "columns", "tags")), k=anything)
    def revise(self, n: int, who: int, kind: str, k: int) -> None:
        m = chosen(self.memories(), n)
        if changes := self.changes(m, kind, k):
            self.story.tell("revise", self.owner(m, who), m.name, **changes)

    def changes(self, m: Memory, kind: str, number: int) -> dict[str, Any]:
        """Return an edit that differs from what the memory says, or nothing."""
        if kind == "text":
            return {} if self.twins(m) else {"text": self.text(m.entities or ["orders"], number)}
        if kind == "tags":
            return {"tags": [f"tag {len(self.story.sentences)}"]}
        if kind == "columns":
            columns = self.listed(m.entities or ["orders"], number)
            return {} if columns == m.columns else {"columns": columns}
        entity = chosen(("orders", "refunds", "plans", "drafts"), number)
        rest = [name for name in m.entities if name != entity]
        return {"entities": rest if entity in m.entities else [*m.entities, entity]}

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, ends=st.sampled_from(("", "past", "later")))
    def limit(self, n: int, who: int, ends: str) -> None:
        m = chosen(self.memories("living") or self.memories(), n)
        if m.ends != ends:
            self.story.tell("revise", self.owner(m, who), m.name, ends=ends)

    @precondition(lambda self: any(m.ends for m in self.memories()))
    @rule(n=anything, who=anything)
    def extend(self, n: int, who: int) -> None:
        m = chosen([m for m in self.memories() if m.ends], n)
        self.story.tell("extend", chosen([self.owner(m, who), self.curator(m, who)], who), m.name)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything)
    def correct(self, n: int, who: int) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("correct", self.owner(m, who), m.name)

    @precondition(lambda self: len(self.plain()) > 1)
    @rule(n=anything, k=anything, who=anything, verb=st.sampled_from(("correct", "revise")))
    def copy_text(self, n: int, k: int, who: int, verb: str) -> None:
        """Give a memory the text of another one of its owner, which is refused."""
        m = chosen(self.plain(), n)
        name = self.owner(m, who)
        person = next(person for person in PEOPLE if person.name == name)
        others = [other for other in self.plain() if (other.owner, other.persona) == (m.owner, m.persona)]
        others = [other for other in others if other.text != m.text and self.story.e.sees(person, other)]
        if not others:
            return
        copied = chosen(others, k)
        if verb == "correct":
            self.story.tell("correct", name, m.name, copied.name)
        else:
            self.story.tell("revise", name, m.name, text=copied.text)

    def plain(self) -> list[Memory]:
        return self.memories("living", insight=False)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything)
    def forget(self, n: int, who: int) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("forget", self.owner(m, who), m.name)

    @precondition(lambda self: self.has("archived", "superseded"))
    @rule(n=anything, who=anything)
    def restore(self, n: int, who: int) -> None:
        m = chosen(self.memories("archived", "superseded"), n)
        if not m.link_unsure:
            self.story.tell("restore", self.owner(m, who), m.name)

    @precondition(lambda self: any(m.last and m.last.by for m in self.memories()))
    @rule(n=anything, who=anything)
    def undo(self, n: int, who: int) -> None:
        m = chosen([m for m in self.memories() if m.last and m.last.by], n)
        if m.last and not m.link_unsure:
            who_else = chosen([m.last.by] * 10 + [person.name for person in PEOPLE], who)
            self.story.tell("undo", who_else, m.name, m.last.change)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything)
    def verify(self, n: int, who: int) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("verify", self.owner(m, who), m.name)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=st.sampled_from(PEOPLE))
    def mark_wrong(self, n: int, who: Any) -> None:
        self.story.tell("mark_wrong", who.name, chosen(self.memories(), n).name)

    @precondition(lambda self: any(m.marks for m in self.memories()))
    @rule(n=anything, k=anything)
    def withdraw(self, n: int, k: int) -> None:
        m = chosen([m for m in self.memories() if m.marks], n)
        self.story.tell("withdraw", chosen(list(m.marks), k), m.name)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, visible=visibility)
    def share(self, n: int, who: int, visible: str) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("share", self.owner(m, who), m.name, visible)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, persona=st.sampled_from(("sales", "supply")))
    def move(self, n: int, who: int, persona: str) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("move", self.owner(m, who), m.name, persona)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, scope=st.sampled_from(SCOPES))
    def set_scope(self, n: int, who: int, scope: str) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("set_scope", self.owner(m, who), m.name, scope)

    @precondition(lambda self: len(self.memories("living")) > 1)
    @rule(n=anything, k=anything, who=anything, scopes=st.sampled_from((SCOPES[1:3], SCOPES[2:0:-1])))
    def settle_pair(self, n: int, k: int, who: int, scopes: tuple[str, ...]) -> None:
        first = chosen(self.memories("living")[:-1], n)
        later = self.memories("living")[self.memories("living").index(first) + 1 :]
        self.story.tell("settle_pair", self.owner(first, who), first.name, chosen(later, k).name, *scopes)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, attachment=st.sampled_from(ATTACHMENTS))
    def choose_attachment(self, n: int, who: int, attachment: str) -> None:
        m = chosen(self.memories(), n)
        self.story.tell("choose_attachment", self.owner(m, who), m.name, attachment)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything, k=anything)
    def waive_caveat(self, n: int, who: int, k: int) -> None:
        waived = [m for m in self.memories() if m.is_waived]
        if waived and k % 2:
            m = chosen(waived, n)
            self.story.tell("reinstate_caveat", chosen([m.waived_by] * 5 + [p.name for p in PEOPLE], who), m.name)
        else:
            about_source = [m for m in self.memories() if "orders" in m.entities]
            m = chosen(about_source or self.memories(), n)
            self.story.tell("waive_caveat", self.owner(m, who), m.name)

    @precondition(lambda self: self.has())
    @rule(old=st.sampled_from(AUTHORS), new=st.sampled_from(AUTHORS), who=st.sampled_from(("ada", "ada", "alice")))
    def hand_over(self, old: Any, new: Any, who: str) -> None:
        texts = [{(m.text, m.persona) for m in self.plain() if m.owner == one.name} for one in (old, new)]
        if old is not new and not texts[0] & texts[1]:  # of two equal facts, one is archived
            self.story.tell("hand_over", who, old.name, new.name)

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything)
    def erase(self, n: int, who: int) -> None:
        m = chosen(self.memories(), n)
        if not any(other.link_unsure for other in self.story.e.chain(m)):
            self.story.tell("erase", self.owner(m, who), m.name)

    @precondition(lambda self: self.story.handed_over)
    @rule(who=st.sampled_from(("ada", "ada", "alice")))
    def undo_hand_over(self, who: str) -> None:
        self.story.tell("undo_hand_over", who)

    # -- several at once, and two people at once ------------------------------------------------------------

    @precondition(lambda self: len(self.memories()) > 1)
    @rule(n=anything, who=anything, act=st.sampled_from(sorted(ACTS)), count=st.integers(2, 4))
    def bulk(self, n: int, who: int, act: str, count: int) -> None:
        rows = self.memories(insight=True) if act in ("approve", "reject") else self.memories()
        rows = [m for m in rows if not m.link_unsure]
        if not rows:
            return
        first = chosen(rows, n)
        rows = [*rows[rows.index(first) :], *rows][: min(count, len(rows))]
        person = self.curator(first, who) if act in ("approve", "reject") else self.owner(first, who)
        self.story.tell("bulk", act, person, [m.name for m in rows])

    @precondition(lambda self: self.story.done_at_once)
    @rule()
    def undo_bulk(self) -> None:
        done = self.story.done_at_once
        rows = [self.story.e.memories.get(name) for name in done.names] if done else []
        known = [m for m in rows if m]
        if not any(m.link_unsure or (m.insight and m.insight.edit_decided) for m in known):
            self.story.tell("undo_bulk")

    @precondition(lambda self: self.memories(insight=True))
    @rule(n=anything)
    def look_at_insight(self, n: int) -> None:
        self.story.tell("look", chosen(self.memories(insight=True), n).name)

    @precondition(lambda self: any(m.name in self.story.seen for m in self.memories(insight=True)))
    @rule(n=anything, who=anything, verb=st.sampled_from(("approves", "rejects")))
    def decide_late(self, n: int, who: int, verb: str) -> None:
        m = chosen([m for m in self.memories(insight=True) if m.name in self.story.seen], n)
        self.story.tell("decide_late", self.curator(m, who), m.name, verb)

    # -- checks ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.has())
    @rule(n=anything, who=anything)
    def change_check(self, n: int, who: int) -> None:
        m = chosen(self.memories(), n)
        changer = self.curator(m, who) if m.is_in_force else self.owner(m, who)
        if not m.is_refuted:  # otherwise the rules would have to tell why it is stale
            self.story.tell("remove_check" if m.check else "add_check", changer, m.name)

    @precondition(lambda self: any(m.check for m in self.memories("living")))
    @rule(n=anything, times=st.integers(1, 2))
    def data_change(self, n: int, times: int) -> None:
        self.story.tell("data_change", chosen([m for m in self.memories("living") if m.check], n).name)
        for _ in range(times):
            self.story.tell("checks_run")

    @precondition(lambda self: self.has())
    @rule(n=anything, who=st.sampled_from(PEOPLE))
    def cite(self, n: int, who: Any) -> None:
        self.story.tell("cite", who.name, chosen(self.memories(), n).name)

    @precondition(lambda self: self.story.documents.open())
    @rule(n=anything)
    def acknowledge(self, n: int) -> None:
        self.story.tell("acknowledge", chosen(self.story.documents.open(), n))

    # -- insights -------------------------------------------------------------------------------------------

    @rule(who=st.sampled_from(AUTHORS), entities=about, wanted=visibility, replaces=anything)
    def capture(self, who: Any, entities: list[str], wanted: str, replaces: int) -> None:
        plain = [m.name for m in self.memories("living") if m.insight is None or m.insight.state == "applied"]
        replaced = chosen(plain, replaces // 2) if plain and replaces % 2 else ""
        self.story.tell("capture", who.name, entities, wanted=wanted, replaces=replaced)

    @precondition(lambda self: self.memories("living", insight=False))
    @rule(n=anything, entities=about, wanted=visibility)
    def capture_the_same(self, n: int, entities: list[str], wanted: str) -> None:
        m = chosen(self.memories("living", insight=False), n)
        owner = next(person for person in PEOPLE if person.name == m.owner)
        if m.persona == owner.personas[0] and not self.twins(m):
            self.story.tell("capture", m.owner, entities, text=m.text, wanted=wanted)

    @precondition(lambda self: self.insights("pending"))
    @rule(n=anything, who=anything, kind=st.sampled_from(("text", "entities", "columns")), k=anything)
    def edit_insight(self, n: int, who: int, kind: str, k: int) -> None:
        m = chosen(self.insights("pending"), n)
        changes = self.changes(m, kind, k)
        if changes and m.is_living:
            self.story.tell("edit_insight", self.owner(m, who), m.name, **changes)

    @precondition(lambda self: self.insights("pending", "approved", "applied"))
    @rule(n=anything, who=anything)
    def approve(self, n: int, who: int) -> None:
        rows = self.insights("pending", "approved", "applied")
        m = chosen(sorted(rows, key=lambda m: m.insight is None or m.insight.state != "pending"), n)
        self.story.tell("approve", self.curator(m, who), m.name)

    @precondition(lambda self: self.insights("pending", "approved", "applied", "rejected"))
    @rule(n=anything, who=anything)
    def reject(self, n: int, who: int) -> None:
        m = chosen(self.memories(insight=True), n)
        self.story.tell("reject", self.curator(m, who), m.name)

    @precondition(lambda self: self.insights("approved", "rejected"))
    @rule(n=anything, who=anything)
    def undo_review(self, n: int, who: int) -> None:
        m = chosen(self.insights("approved", "rejected"), n)
        if m.insight and not m.insight.edit_decided:
            who_else = chosen([m.insight.reviewed_by] * 10 + [person.name for person in PEOPLE], who)
            self.story.tell("undo_review", who_else, m.name)

    @precondition(lambda self: self.insights("rejected"))
    @rule(n=anything, who=anything)
    def appeal(self, n: int, who: int) -> None:
        m = chosen(self.insights("rejected"), n)
        self.story.tell("appeal", self.owner(m, who), m.name)

    # -- interviews -----------------------------------------------------------------------------------------

    @rule(n=anything, asked=st.sampled_from(AUTHORS), entity=st.sampled_from(("orders", "refunds", "plans", "drafts")))
    def ask(self, n: int, asked: Any, entity: str) -> None:
        """Mostly a person asks themselves, or a curator asks them."""
        who = chosen([asked.name] * 4 + [person.name for person in PEOPLE], n)
        self.story.tell("ask", who, asked.name, entity)

    @precondition(lambda self: self.story.e.questions)
    @rule(n=anything, who=anything, verb=st.sampled_from(("answer", "answer", "skip", "unknown", "undo")))
    def decide_question(self, n: int, who: int, verb: str) -> None:
        questions = self.story.e.questions
        name = chosen(sorted(questions), n)
        person = chosen([questions[name].owner] * 10 + [person.name for person in PEOPLE], who)
        if verb == "answer":
            self.story.tell("answer", person, name)
        elif verb != "undo":
            self.story.tell("pass_over", person, name, verb)
        elif interviews.is_untouched(self.story.e, questions[name]):
            self.story.tell("undo_answer", person, name)

    # -- changesets -----------------------------------------------------------------------------------------

    @precondition(lambda self: self.insights("approved"))
    @rule(n=anything, who=anything, k=anything, fault=st.sampled_from((None, None, None, 0, 1)))
    def apply(self, n: int, who: int, k: int, fault: int | None) -> None:
        m = chosen(self.insights("approved"), n)
        if m.entities and not (m.link_unsure or m.supersedes):
            curator = self.curator(m, who)
            note = f"{curator} says: outdated"
            wanted = [("deprecation", note), ("tag", True if k % 4 else None), ("description", f"Text {k % 2}.")]
            first = k % 3
            self.story.tell("apply", curator, m.name, (wanted[first:] + wanted)[: 1 + k % 2], writes_left=fault)

    @precondition(lambda self: self.insights("approved"))
    @rule(n=anything, who=anything, k=anything)
    def propose(self, n: int, who: int, k: int) -> None:
        m = chosen(self.insights("approved"), n)
        if m.entities and not (m.link_unsure or m.supersedes):
            wanted = [("tag", True), ("description", f"Text {k % 2}.")]
            self.story.tell("propose", self.curator(m, who), m.name, wanted[: 1 + k % 2])

    @precondition(lambda self: self.waiting())
    @rule(n=anything, who=anything, verdict=st.sampled_from(("approves", "declines")))
    def second(self, n: int, who: int, verdict: str) -> None:
        who_else = chosen([person.name for person in reversed(CURATORS)] + ["alice"], who)
        self.story.tell("second", who_else, chosen(self.waiting(), n), verdict)

    def waiting(self) -> list[str]:
        return [changeset.name for changeset in self.story.e.changesets.values() if changeset.state == "waiting"]

    @precondition(lambda self: self.running())
    @rule(n=anything, who=anything)
    def resume(self, n: int, who: int) -> None:
        partial = [name for name in self.running() if self.story.e.changesets[name].state == "partial"]
        name = chosen(partial or self.running(), n)
        self.story.tell("resume", chosen([person.name for person in reversed(CURATORS)] + ["alice"], who), name)

    @precondition(lambda self: self.running())
    @rule(n=anything, who=anything, skip_conflicts=st.booleans(), fault=st.sampled_from((None, None, 0, 1)))
    def roll_back(self, n: int, who: int, skip_conflicts: bool, fault: int | None) -> None:
        who_else = chosen([person.name for person in reversed(CURATORS)] + ["alice"], who)
        name = chosen(self.running(), n)
        self.story.tell("roll_back", who_else, name, skip_conflicts=skip_conflicts, writes_left=fault)

    def running(self) -> list[str]:
        changesets = self.story.e.changesets.values()
        return [changeset.name for changeset in changesets if changeset.state in ("applied", "partial")]

    # -- the catalog ----------------------------------------------------------------------------------------

    @rule()
    def check(self) -> None:
        self.story.tell("check")

    @precondition(lambda self: self.story.e.available)
    @rule()
    def catalog_goes(self) -> None:
        self.story.tell("catalog_goes")

    @precondition(lambda self: not self.story.e.available)
    @rule()
    def catalog_returns(self) -> None:
        self.story.tell("catalog_returns")

    @rule(name=st.sampled_from(("orders", "refunds", "plans", "drafts")), kind=st.integers(0, 4), k=anything)
    def others_change(self, name: str, kind: int, k: int) -> None:
        entity = self.story.e.entities[name]
        columns = dict(entity.columns)
        if kind == 0 or not entity.exists:
            self.story.tell("others_change", name, exists=not entity.exists, columns=columns)
            return
        column = chosen(sorted(columns), k)
        if kind == 1 and len(columns) > 1:
            del columns[column]
        elif kind == 2:
            columns |= dict.fromkeys(_dropped(entity)[:1], KINDS[0])
        else:
            columns[column] = chosen(KINDS, k)
        if columns != entity.columns:
            self.story.tell("others_change", name, columns=columns)

    @rule(name=st.sampled_from(("orders", "refunds", "plans")), place=st.integers(0, 2), k=st.booleans())
    def others_set(self, name: str, place: int, k: bool) -> None:
        """Others give texts of their own. Whether a tag is ours or theirs, nobody could tell."""
        entity = self.story.e.entities[name]
        number = len(self.story.sentences)
        if place == 0:
            self.story.tell("others_set", name, "description", f"By others, {number}.")
        elif place == 1:
            is_given = entity.value("deprecation") is not None
            self.story.tell("others_set", name, "deprecation", None if is_given else f"others say so, {number}")
        elif entity.value("tag") or not self.story.e.changesets:
            self.story.tell("others_set", name, "tag", None if entity.value("tag") else True)

    @rule(who=st.sampled_from(PEOPLE))
    def look(self, who: Any) -> None:
        self.story.tell("compare_views", who.name)


def _dropped(entity: Entity) -> list[str]:
    return [name for name in catalog()[entity.name].columns if name not in entity.columns]


def run(*, seed: int | None, examples: int, steps: int) -> None:
    """Tell random stories, the same ones each time if there is no seed. Raises Differs with a short one that fails."""
    try:
        run_state_machine_as_test(
            Stories if seed is None else hypothesis.seed(seed)(Stories),
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=seed is None,
                database=None,
                deadline=None,
                phases=[Phase.generate],  # leaving out whole steps is quicker than the search for smaller numbers
                print_blob=False,
                verbosity=Verbosity.quiet,
                suppress_health_check=list(HealthCheck),
            ),
        )
    except Differs as found:
        raise shortest(Stories.callers, found) from None
