"""The verbs of stories, each with its sentence, its refusals, and its effect on what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model import (
    approvals,
    bulk,
    caveats,
    checks,
    citations,
    entity_assignment,
    interviews,
    memories,
    reviews,
    scopes,
    validity,
)
from tests.model.expected import ALLOWED, PEOPLE, UNAVAILABLE, Changeset, Expected, Memory, Person, Text
from tests.model.sentences import about, changed, edited
from tests.model.telling import BY_NAME, Telling
from tests.model.world import request, urn


class Story(Telling):
    # -- memories -------------------------------------------------------------------------------------------

    def remember(
        self,
        who: str,
        entities: list[str],
        *,
        text: Text | None = None,
        visibility: str = "persona",
        columns: dict[str, set[str]] | None = None,
    ) -> str:
        person, text, columns = BY_NAME[who], text or self.e.new_text(), columns or {}
        known = memories.existing(self.e, person, text)
        name = known.name if known else f"m{self.e.written + 1}"
        fields = {"content": str(text), "category": "data_quality", "visibility": visibility}
        fields |= _subjects(entities, columns)
        before = self.world.ids.get(name)
        self._step(
            f"{who} remembers {name}{about(entities, columns, text)}, visible to {visibility}",
            set(),
            lambda: self.world.remember(name, who, **fields),
            lambda: memories.remember(self.e, person, text, visibility, entities, columns),
        )
        if before and self.world.ids[name] != before:
            self._fail([f"the same text is stored already, as {name}"])
        return name

    def revise(self, who: str, name: str, **changes: Any) -> bool:
        m = self[name]
        return self._step(
            f"{who} edits {name}: {edited(changes)}",
            memories.may_revise(self.e, BY_NAME[who], m, changes),
            lambda: self.world.revise(who, name, **_fields(changes)),
            lambda: memories.revise(self.e, BY_NAME[who], m, changes),
        )

    def correct(self, who: str, name: str, copied: str = "") -> str:
        """Correct a memory, with a new text or with that of the memory `copied`."""
        m, new = self[name], f"m{self.e.written + 1}"
        text = self[copied].text if copied else self.e.new_text()
        done = self._step(
            f"{who} corrects {name} with {new}" + (f", which has the text of {copied}" if copied else ""),
            memories.may_correct(self.e, BY_NAME[who], m, text),
            lambda: self.world.correct(new, who, name, str(text)),
            lambda: memories.correct(self.e, BY_NAME[who], m, text),
        )
        return new if done else ""

    def forget(self, who: str, name: str) -> bool:
        return self._verb("forgets", memories.may_forget, memories.forget, self.world.forget, who, name)

    def restore(self, who: str, name: str) -> bool:
        """Restoring a stale memory is not part of the rules."""
        if self[name].is_living:
            return False
        return self._verb("restores", memories.may_restore, memories.restore, self.world.restore, who, name)

    def verify(self, who: str, name: str) -> bool:
        return self._verb("verifies", memories.may_verify, memories.verify, self.world.verify, who, name)

    def extend(self, who: str, name: str) -> bool:
        return self._verb("extends", validity.may_extend, validity.extend, self.world.extend, who, name)

    def erase(self, who: str, name: str) -> bool:
        return self._verb("erases", memories.may_erase, memories.erase, self.world.erase, who, name)

    def withdraw(self, who: str, name: str) -> bool:
        may = memories.may_withdraw
        return self._verb("withdraws the mark on", may, memories.withdraw, self.world.withdraw, who, name)

    def _verb(
        self,
        verb: str,
        may: Callable[[Expected, Person, Memory], set[str]],
        effect: Callable[[Expected, Person, Memory], object],
        act: Callable[[str, str], object],
        who: str,
        name: str,
    ) -> bool:
        person, m = BY_NAME[who], self[name]
        refusals = may(self.e, person, m)
        return self._step(f"{who} {verb} {name}", refusals, lambda: act(who, name), lambda: effect(self.e, person, m))

    def undo(self, who: str, name: str, change: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} undoes the last change of {name}, which was {change}",
            memories.may_undo(self.e, BY_NAME[who], m, change),
            lambda: self.world.undo(who, name, change),
            lambda: memories.undo(self.e, BY_NAME[who], m),
        )

    def settle(self, who: str, name: str, entities: list[str]) -> bool:
        m = self[name]
        return self._step(
            f"{who} says that {name} is about {' and '.join(entities) or 'nothing'}",
            entity_assignment.may_assign(self.e, BY_NAME[who], m),
            lambda: self.world.settle(who, name, entities),
            lambda: entity_assignment.assign(self.e, BY_NAME[who], m, entities),
        )

    def mark_wrong(self, who: str, name: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} marks {name} as wrong",
            memories.may_mark(self.e, BY_NAME[who], m),
            lambda: self.world.mark_wrong(who, name),
            lambda: self._marked(BY_NAME[who], m),
        )

    def _marked(self, person: Person, m: Memory) -> None:
        if person.name in m.marks:  # the earlier mark is withdrawn first
            self.documents.note_change(m.name)
        memories.mark_wrong(self.e, person, m)

    def share(self, who: str, name: str, visibility: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} shares {name} with {visibility}",
            memories.may_share(self.e, BY_NAME[who], m),
            lambda: self.world.share(who, name, visibility),
            lambda: memories.share(self.e, BY_NAME[who], m, visibility),
        )

    def move(self, who: str, name: str, persona: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} moves {name} to {persona}",
            memories.may_move(self.e, BY_NAME[who], m, persona),
            lambda: self.world.move(who, name, persona),
            lambda: memories.move(self.e, BY_NAME[who], m, persona),
        )

    def set_scope(self, who: str, name: str, scope: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} says that {name} holds {f'for {scope}' if scope else 'everywhere'}",
            scopes.may_set_scope(self.e, BY_NAME[who], m, scope),
            lambda: self.world.set_scope(who, name, scope),
            lambda: scopes.set_scope(self.e, BY_NAME[who], m, scope),
        )

    def settle_pair(self, who: str, first: str, second: str, *holds: str) -> bool:
        pair, places = (self[first], self[second]), (holds[0], holds[1])
        return self._step(
            f"{who} says that {first} holds for {holds[0]}, and {second} for {holds[1]}",
            scopes.may_settle(self.e, BY_NAME[who], pair, places),
            lambda: self.world.settle_pair(who, first, second, *holds),
            lambda: scopes.settle(self.e, BY_NAME[who], pair, places),
        )

    def choose_attachment(self, who: str, name: str, attachment: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} has {name} attached {attachment}",
            memories.may_change(self.e, BY_NAME[who], m),
            lambda: self.world.choose_attachment(who, name, attachment),
            lambda: caveats.choose_attachment(m, BY_NAME[who], attachment),
        )

    def waive_caveat(self, who: str, name: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} says that {name} does not hold for {caveats.DERIVED}",
            caveats.may_waive(self.e, BY_NAME[who], m),
            lambda: self.world.waive_caveat(who, name),
            lambda: caveats.waive(m, BY_NAME[who]),
        )

    def reinstate_caveat(self, who: str, name: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} says that {name} holds for {caveats.DERIVED} after all",
            caveats.may_reinstate(self.e, BY_NAME[who], m),
            lambda: self.world.reinstate_caveat(who, name),
            lambda: caveats.reinstate(m),
        )

    def hand_over(self, who: str, old: str, new: str) -> bool:
        def effect() -> None:
            moved = memories.hand_over(self.e, BY_NAME[old], BY_NAME[new])
            self.handed_over = (old, new, moved, self.documents.hand_over(old, new))

        return self._step(
            f"{who} hands everything of {old} over to {new}",
            memories.may_hand_over(BY_NAME[who]),
            lambda: self.world.hand_over(who, old, new),
            effect,
        )

    def undo_hand_over(self, who: str) -> bool:
        """Undo the last hand-over."""
        if self.handed_over is None:
            return False
        old, new, moved, documents = self.handed_over

        def effect() -> None:
            memories.take_back(self.e, moved, BY_NAME[old], BY_NAME[new])
            self.documents.hand_over(new, old, documents)
            self.handed_over = None

        return self._step(
            f"{who} undoes the hand-over of {old} to {new}",
            memories.may_hand_over(BY_NAME[who]),
            lambda: self.world.undo_hand_over(who),
            effect,
        )

    # -- several at once, and two people at once ------------------------------------------------------------

    def bulk(self, act: str, who: str, names: list[str]) -> None:
        outcomes: dict[str, str] = {}
        for name in names:
            self[name]  # raises KeyError in a shortened story that lacks it

        def effect() -> None:
            done, wrong = bulk.take_effect(self.e, BY_NAME[who], bulk.ACTS[act], list(outcomes), outcomes)
            self.done_at_once = bulk.Done(act, who, done, {name: self.e.memories[name].last for name in done})
            if wrong:
                self._fail(wrong)

        self._step(
            f"{who} starts the bulk action {act} on {', '.join(names)}",
            set(),
            lambda: outcomes.update(self.world.bulk(act, who, names, bulk.ACTS[act].choice)),
            effect,
        )

    def undo_bulk(self) -> None:
        done = self.done_at_once
        if done is None:
            return
        outcomes: dict[str, str] = {}

        def effect() -> None:
            self.done_at_once = None
            if wrong := bulk.take_back(self.e, BY_NAME[done.who], done, outcomes):
                self._fail(wrong)

        self._step(
            f"{done.who} undoes the bulk action {done.act}",
            set() if done.names else {"conflict", ALLOWED},
            lambda: outcomes.update(self.world.undo_bulk(done.who)),
            effect,
        )

    def look(self, name: str) -> None:
        """Somebody opens the page of an insight."""
        if self[name].insight:
            self.world.look(name)
            self.seen[name] = _shown(self[name])

    def decide_late(self, who: str, name: str, verb: str) -> bool:
        """Decide on an insight as the page showed it that was opened earlier."""
        m = self[name]
        if m.insight is None or name not in self.seen:
            return False
        is_as_seen = self.world.is_as_seen(name)
        if is_as_seen and self.seen[name] != _shown(m):
            self._fail([f"the state of {name} has changed, and its token has not"])
        rules = {
            "approves": (reviews.may_approve_as_seen, reviews.approve_as_seen),
            "rejects": (reviews.may_reject, reviews.reject),
        }
        may, effect = rules[verb]
        person, state = BY_NAME[who], m.insight.state
        refusals = may(self.e, person, m)
        is_repeated = not is_as_seen and m.insight.reviewed_by == who and verb == DECIDED.get(state)
        if not is_as_seen:
            refusals = (refusals or set()) | {"conflict"}
        return self._step(
            f"{who} {verb} {name} on the page that was opened earlier",
            refusals | {ALLOWED} if is_repeated else refusals,
            lambda: self.world.decide_late(who, name, verb),
            lambda: None if is_repeated else effect(self.e, person, m),
        )

    # -- documents that cite memories -----------------------------------------------------------------------

    def cite(self, who: str, name: str) -> bool:
        return self._verb("cites", citations.may_cite, self.documents.cite, self.world.cite, who, name)

    def acknowledge(self, who: str) -> bool:
        return self._step(
            f"{who} has updated the document that cites",
            set(),
            lambda: self.world.acknowledge(who),
            lambda: self.documents.acknowledge(BY_NAME[who]),
        )

    # -- checks ---------------------------------------------------------------------------------------------

    def add_check(self, who: str, name: str) -> bool:
        return self._verb("adds a check to", checks.may_change_check, checks.add_check, self.world.add_check, who, name)

    def remove_check(self, who: str, name: str) -> bool:
        may = checks.may_change_check
        return self._verb("removes the check of", may, checks.remove_check, self.world.remove_check, who, name)

    def data_change(self, name: str) -> None:
        check = self[name].check
        if check is None:
            raise KeyError(name)  # a shorter story has not added it

        def change() -> None:
            check.holds = self.world.holds[name] = not check.holds

        self._step(f"the data change, so that the check of {name} gets another result", set(), change, lambda: None)

    def checks_run(self) -> None:
        self._step("all checks run", set(), self.world.run_checks, lambda: checks.run(self.e))

    # -- insights -------------------------------------------------------------------------------------------

    def capture(
        self, who: str, entities: list[str], *, text: Text | None = None, wanted: str = "persona", replaces: str = ""
    ) -> str:
        person, name, text = BY_NAME[who], f"m{self.e.written + 1}", text or self.e.new_text()
        replaced = self.e.memories.get(replaces)
        fields = {"insight_text": str(text), "visibility": wanted, **_subjects(entities, {})}
        supersedes = f", to replace {replaces}" if replaces else ""
        twins = [m.name for m in self.e.memories.values() if m.text == text]
        copies = f", with the text of {twins[0]}" if twins else ""
        done = self._step(
            f"{who} proposes insight {name}{about(entities, {}, text)}{copies}, for {wanted}{supersedes}",
            reviews.may_capture(self.e, person, replaced),
            lambda: self.world.capture(name, who, replaces, **fields),
            lambda: reviews.capture(self.e, person, text, wanted, entities, replaced),
        )
        return name if done else ""

    def edit_insight(self, who: str, name: str, **changes: Any) -> bool:
        m = self[name]
        return self._step(
            f"{who} edits insight {name}: {edited(changes)}",
            reviews.may_edit_insight(self.e, BY_NAME[who], m),
            lambda: self.world.edit_insight(who, name, **_fields(changes)),
            lambda: memories.edit(self.e, m, changes, who),
        )

    def approve(self, who: str, name: str) -> bool:
        return self._verb("approves", reviews.may_approve, reviews.approve, self.world.approve, who, name)

    def reject(self, who: str, name: str) -> bool:
        return self._verb("rejects", reviews.may_reject, reviews.reject, self.world.reject, who, name)

    def appeal(self, who: str, name: str) -> bool:
        return self._verb("appeals for", reviews.may_appeal, _to_pending, self.world.appeal, who, name)

    def undo_review(self, who: str, name: str) -> bool:
        verb, may = "undoes the review of", reviews.may_undo_review
        return self._verb(verb, may, _to_pending, self.world.undo_review, who, name)

    # -- interviews -----------------------------------------------------------------------------------------

    def ask(self, who: str, asked: str, entity: str) -> None:
        e, name = self.e, f"q{len(self.e.questions) + 1}"
        before = any((q.owner, q.entity) == (asked, entity) for q in e.questions.values())

        def effect() -> None:
            # an earlier question that was opened again keeps its name
            e.questions[self.world.opened] = interviews.Question(asked, entity, who)

        self._step(
            f"{who} asks {asked} about {entity}",
            interviews.may_ask(e, BY_NAME[who], BY_NAME[asked], entity, before),
            lambda: self.world.ask(name, who, asked, entity),
            effect,
        )

    def answer(self, who: str, question: str) -> None:
        q, name, text = self.e.questions[question], f"m{self.e.written + 1}", self.e.new_text()
        self._step(
            f"{who} answers {question} with insight {name}",
            interviews.may_decide(self.e, BY_NAME[who], q),
            lambda: self.world.answer(question, name, who, str(text)),
            lambda: interviews.answer(self.e, BY_NAME[who], q, text),
        )

    def pass_over(self, who: str, question: str, because: str) -> None:
        q = self.e.questions[question]
        self._step(
            f"{who} passes {question} over: {because}",
            interviews.may_decide(self.e, BY_NAME[who], q),
            lambda: self.world.pass_over(question, who, because),
            lambda: setattr(q, "state", "skipped" if because == "skip" else "unknown"),
        )

    def undo_answer(self, who: str, question: str) -> None:
        q = self.e.questions[question]
        self._step(
            f"{who} undoes what became of {question}",
            interviews.may_undo(self.e, BY_NAME[who], q),
            lambda: self.world.undo_answer(question, who),
            lambda: interviews.undo(self.e, BY_NAME[who], q),
        )

    # -- changesets -----------------------------------------------------------------------------------------

    def apply(self, who: str, name: str, changes: list[tuple[str, Any]], *, writes_left: int | None = None) -> str:
        m, changeset = self[name], f"c{self.e.applied + 1}"
        entity = self.e.entities[m.entities[0]]
        written = ", ".join(f"{place} {value or 'removed'}" for place, value in changes)
        until = "" if writes_left is None else f"; the catalog becomes unavailable after {writes_left} writes"
        refusals = reviews.may_apply(self.e, BY_NAME[who], m, entity)
        self.world.writes_left = writes_left
        done = self._step(
            f"{who} applies {name} to {entity.name} as {changeset}: {written}{until}",
            refusals,
            lambda: self.world.apply(
                changeset, who, name, entity.name, [request(place, value) for place, value in changes]
            ),
            lambda: reviews.apply(self.e, BY_NAME[who], m, entity, changes, writes_left),
        )
        return changeset if done else ""

    def propose(self, who: str, name: str, changes: list[tuple[str, Any]]) -> str:
        m, changeset = self[name], f"c{self.e.applied + 1}"
        entity = self.e.entities[m.entities[0]]
        requests = [request(place, value) for place, value in changes]
        done = self._step(
            f"{who} applies {name} to {entity.name} as {changeset}, which is risky: {changes}",
            reviews.may_apply(self.e, BY_NAME[who], m, entity),
            lambda: self.world.propose(changeset, who, name, entity.name, requests),
            lambda: approvals.propose(self.e, BY_NAME[who], m, entity, changes),
        )
        return changeset if done else ""

    def second(self, who: str, name: str, verdict: str) -> bool:
        changeset, person = self.e.changesets[name], BY_NAME[who]
        if verdict == "approves":
            refusals = approvals.may_approve(self.e, person, changeset)
        else:
            refusals = approvals.may_decline(person, changeset)
        return self._step(
            f"{who} {verdict} {name}",
            refusals,
            lambda: self.world.second(who, name, verdict),
            lambda: (
                approvals.approve(self.e, person, changeset)
                if verdict == "approves"
                else approvals.decline(self.e, changeset)
            ),
        )

    def resume(self, who: str, name: str) -> bool:
        changeset = self.e.changesets[name]
        return self._step(
            f"{who} resumes {name}",
            reviews.may_resume(self.e, BY_NAME[who], changeset),
            lambda: self.world.resume(who, name),
            lambda: reviews.resume(self.e, BY_NAME[who], changeset),
        )

    def roll_back(self, who: str, name: str, *, skip_conflicts: bool = False, writes_left: int | None = None) -> bool:
        changeset = self.e.changesets[name]
        skipping = ", except values that others have changed" if skip_conflicts else ""
        refusals = reviews.may_roll_back(self.e, BY_NAME[who], changeset, skip_conflicts)
        if not refusals and reviews.breaks_off(self.e, changeset, writes_left):
            assert writes_left is not None
            return self._break_off(f"{who} rolls {name} back{skipping}", who, changeset, skip_conflicts, writes_left)
        return self._step(
            f"{who} rolls {name} back{skipping}",
            refusals,
            lambda: self.world.roll_back(who, name, skip_conflicts),
            lambda: reviews.roll_back(self.e, BY_NAME[who], changeset),
        )

    def _break_off(self, sentence: str, who: str, changeset: Changeset, skip_conflicts: bool, writes_left: int) -> bool:
        def act() -> None:
            self.world.writes_left = writes_left
            try:
                self.world.roll_back(who, changeset.name, skip_conflicts)
            finally:
                reviews.roll_back_partly(self.e, changeset, writes_left)

        until = f"; the catalog becomes unavailable after {writes_left} writes"
        return self._step(sentence + until, {UNAVAILABLE}, act, lambda: None, keeps=True)

    # -- the catalog ----------------------------------------------------------------------------------------

    def check(self) -> None:
        self._step("the scheduled check runs", set(), self.world.check, self.e.check)

    def catalog_goes(self) -> None:
        def go() -> None:
            self.world.is_available = self.e.available = False

        self._step("the catalog becomes unavailable", set(), go, lambda: None)

    def catalog_returns(self) -> None:
        """The check runs at once, so no change of the catalog comes between."""

        def come() -> None:
            self.world.is_available = self.e.available = True
            self.world.check()

        self._step("the catalog is available again, and the scheduled check runs", set(), come, self.e.check)

    def others_set(self, entity: str, place: str, value: Any) -> None:
        self._step(
            f"others set {place} of {entity} to {value}" if value else f"others remove {place} of {entity}",
            set(),
            lambda: self.world.put_value(entity, place, value),
            lambda: self.e.entities[entity].set_by_others(place, value),
        )

    def others_change(self, name: str, *, exists: bool = True, columns: dict[str, tuple[str, bool]]) -> None:
        entity = self.e.entities[name]
        self.sentences.append(changed(entity, exists, columns))
        entity.exists, entity.columns = exists, columns
        self.world.put_entity(entity)
        self.compare()

    # -- the end --------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Settle what is open, and compare what everybody sees."""
        if self.e.available:
            self.check()
        else:
            self.catalog_returns()
        for person in PEOPLE:
            self.compare_views(person.name)
        self.roll_everything_back()

    def roll_everything_back(self) -> None:
        """In the end, the catalog has the values that others gave it."""
        for name, changeset in reversed(self.e.changesets.items()):
            if changeset.state in ("applied", "partial"):
                self.roll_back("ada", name, skip_conflicts=True)


def _to_pending(e: Expected, person: Person, m: Memory) -> None:
    reviews.back_to_pending(e, m)


DECIDED = {"approved": "approves", "rejected": "rejects"}


def _shown(m: Memory) -> tuple[Any, ...]:
    """Return what a curator reads on the page of an insight, and decides on."""
    insight = m.insight
    assert insight
    return (insight.state, str(m.text), tuple(m.entities), tuple(sorted(m.columns)), m.ends, bool(insight.pending_edit))


def _subjects(entities: list[str], columns: dict[str, set[str]]) -> dict[str, Any]:
    listed = [
        {"urn": urn(entity), "column": column, "relevance": "what it is about"}
        for entity, names in columns.items()
        for column in sorted(names)
    ]
    return {"entity_urns": [urn(name) for name in entities], "related_columns": listed}


def _fields(changes: dict[str, Any]) -> dict[str, Any]:
    """Return an edit's fields as the product takes them."""
    fields: dict[str, Any] = {"tags": changes["tags"]} if "tags" in changes else {}
    if "ends" in changes:
        fields["valid_until"] = validity.valid_until(changes["ends"])
    if "text" in changes:
        fields["content"] = str(changes["text"])
    subjects = _subjects(changes.get("entities", []), changes.get("columns", {}))
    fields |= {"entity_urns": subjects["entity_urns"]} if "entities" in changes else {}
    return fields | ({"related_columns": subjects["related_columns"]} if "columns" in changes else {})
