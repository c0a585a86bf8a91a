"""A story: verbs performed on the product and on what is expected, step by step, each step as a sentence.

After each step, everything that the product says is compared with what is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from memories.identity.caller import Caller
from tests.model import memories, reviews
from tests.model.expected import ALLOWED, PEOPLE, Entity, Expected, Memory, Person, Text
from tests.model.world import World, email, request, urn

BY_NAME = {person.name: person for person in PEOPLE}
LIVING = {"active", "stale"}


@dataclass(frozen=True)
class Step:
    """A verb with its arguments. The counts keep the names the same when earlier steps are left out."""

    verb: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    counts: tuple[int, int, int]


class Differs(AssertionError):
    """The product says something else than is expected. The message is the story and the differences."""

    def __init__(self, sentences: list[str], differences: list[str], steps: list[Step]) -> None:
        numbered = [f"  {number}. {sentence}" for number, sentence in enumerate(sentences, 1)]
        super().__init__("\n".join([*numbered, *(f"  But {difference}." for difference in differences)]))
        self.steps, self.what = steps, (sentences[-1:], differences)


def catalog() -> dict[str, Entity]:
    """The catalog in which each story begins. Nobody touches `anchor`: the check skips an empty catalog."""
    number, text = ("NUMBER", False), ("VARCHAR", True)
    entities = [
        Entity("orders", True, {"order_id": number, "amount": number, "status": text}),
        Entity("refunds", True, {"refund_id": number, "reason": text}),
        Entity("plans", True, {"planNo": number, "name": text}),
        Entity("drafts", False, {"draft_id": number, "title": text}),
        Entity("anchor", True, {"anchor_id": number}),
    ]
    return {entity.name: entity for entity in entities}


class Story:
    def __init__(self, callers: dict[str, Caller]) -> None:
        self.e = Expected(catalog())
        self.world = World(callers)
        self.sentences: list[str] = []
        self.steps: list[Step] = []
        self.has_failed = False

    def close(self) -> None:
        self.world.close()

    def __getitem__(self, name: str) -> Memory:
        return self.e.memories[name]

    def tell(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Perform a verb, and remember it for `shortest`."""
        e = self.e
        self.steps.append(Step(verb, deepcopy(arguments), deepcopy(options), (e.written, e.texts, e.applied)))
        return getattr(self, verb)(*arguments, **options)

    # -- one step -------------------------------------------------------------------------------------------

    def _step(self, sentence: str, refusals: set[str], act: Callable[[], object], effect: Callable[[], object]) -> bool:
        """Perform a verb on the product. If it is not refused, change what is expected. Return whether it was done."""
        self.sentences.append(sentence)
        try:
            refusal = self.world.attempt(act)
        except Exception as error:
            self._fail([f"{type(error).__name__}: {error}"])
        if refusal:
            self.sentences[-1] += f" (refused: {refusal})"
        if not refusal and refusals and ALLOWED not in refusals:
            self._fail([f"this must be refused as {' or '.join(sorted(refusals))}"])
        if refusal and refusal not in refusals:
            self._fail([f"this must be {'refused as ' + ' or '.join(sorted(refusals)) if refusals else 'allowed'}"])
        if not refusal:
            effect()
        self.compare()
        return not refusal

    def _fail(self, differences: list[str]) -> NoReturn:
        self.has_failed = True
        raise Differs(self.sentences, differences, self.steps)

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
        fields = {"content": str(text), "visibility": visibility, **_subjects(entities, columns)}
        before = self.world.ids.get(name)
        self._step(
            f"{who} remembers {name}{_about(entities, columns, text)}, visible to {visibility}",
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
            f"{who} edits {name}: {_edited(changes)}",
            memories.may_revise(self.e, BY_NAME[who], m, changes),
            lambda: self.world.revise(who, name, **_fields(changes)),
            lambda: memories.revise(self.e, BY_NAME[who], m, changes),
        )

    def correct(self, who: str, name: str) -> str:
        m, new, text = self[name], f"m{self.e.written + 1}", self.e.new_text()
        done = self._step(
            f"{who} corrects {name} with {new}",
            memories.may_correct(self.e, BY_NAME[who], m),
            lambda: self.world.correct(new, who, name, str(text)),
            lambda: memories.correct(self.e, BY_NAME[who], m, text),
        )
        return new if done else ""

    def forget(self, who: str, name: str) -> bool:
        return self._verb("forgets", memories.may_forget, memories.forget, self.world.forget, who, name)

    def restore(self, who: str, name: str) -> bool:
        return self._verb("restores", memories.may_restore, memories.restore, self.world.restore, who, name)

    def verify(self, who: str, name: str) -> bool:
        return self._verb("verifies", memories.may_verify, memories.verify, self.world.verify, who, name)

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

    def mark_wrong(self, who: str, name: str) -> bool:
        m = self[name]
        return self._step(
            f"{who} marks {name} as wrong",
            memories.may_mark(self.e, BY_NAME[who], m),
            lambda: self.world.mark_wrong(who, name),
            lambda: memories.mark_wrong(self.e, BY_NAME[who], m),
        )

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

    def hand_over(self, who: str, old: str, new: str) -> bool:
        return self._step(
            f"{who} hands everything of {old} over to {new}",
            memories.may_hand_over(BY_NAME[who]),
            lambda: self.world.hand_over(who, old, new),
            lambda: memories.hand_over(self.e, BY_NAME[old], BY_NAME[new]),
        )

    # -- insights -------------------------------------------------------------------------------------------

    def capture(
        self, who: str, entities: list[str], *, text: Text | None = None, wanted: str = "persona", replaces: str = ""
    ) -> str:
        person, name, text = BY_NAME[who], f"m{self.e.written + 1}", text or self.e.new_text()
        replaced = self.e.memories.get(replaces)
        fields = {"insight_text": str(text), "visibility": wanted, **_subjects(entities, {})}
        supersedes = f", to replace {replaces}" if replaces else ""
        twin = memories.existing(self.e, person, text)
        copies = f", with the text of {twin.name}" if twin else ""
        done = self._step(
            f"{who} proposes insight {name}{_about(entities, {}, text)}{copies}, for {wanted}{supersedes}",
            reviews.may_capture(self.e, person, replaced),
            lambda: self.world.capture(name, who, replaces, **fields),
            lambda: reviews.capture(self.e, person, text, wanted, entities, replaced),
        )
        return name if done else ""

    def edit_insight(self, who: str, name: str, **changes: Any) -> bool:
        m = self[name]
        return self._step(
            f"{who} edits insight {name}: {_edited(changes)}",
            reviews.may_edit_insight(self.e, BY_NAME[who], m),
            lambda: self.world.edit_insight(who, name, **_fields(changes)),
            lambda: memories.edit(self.e, m, changes),
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

    def resume(self, who: str, name: str) -> bool:
        changeset = self.e.changesets[name]
        return self._step(
            f"{who} resumes {name}",
            reviews.may_resume(self.e, BY_NAME[who], changeset),
            lambda: self.world.resume(who, name),
            lambda: reviews.resume(self.e, BY_NAME[who], changeset),
        )

    def roll_back(self, who: str, name: str, *, skip_conflicts: bool = False) -> bool:
        changeset = self.e.changesets[name]
        skipping = ", except values that others have changed" if skip_conflicts else ""
        return self._step(
            f"{who} rolls {name} back{skipping}",
            reviews.may_roll_back(self.e, BY_NAME[who], changeset, skip_conflicts),
            lambda: self.world.roll_back(who, name, skip_conflicts),
            lambda: reviews.roll_back(self.e, BY_NAME[who], changeset),
        )

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
        self.sentences.append(_changed(entity, exists, columns))
        entity.exists, entity.columns = exists, columns
        self.world.put_entity(entity)
        self.compare()

    # -- comparing ------------------------------------------------------------------------------------------

    def compare(self) -> None:
        rows = self.world.memories()
        if differences := [*self._in_memories(rows), *self._in_reviews(), *self._in_catalog()]:
            self._fail(differences)

    def _in_memories(self, rows: dict[UUID, dict[str, Any]]) -> list[str]:
        ids = {self.world.ids[name]: name for name in self.e.memories}
        names = {pk: name for name, pk in self.world.ids.items()} | ids
        found = [f"{names.get(pk, 'another memory')} exists" for pk in rows.keys() - ids.keys()]
        found += [f"{ids[pk]} does not exist" for pk in ids.keys() - rows.keys()]
        for name, m in self.e.memories.items():
            row = rows.get(self.world.ids[name])
            if row is not None:
                self._adopt(m, row, names)
                found += self._in_memory(m, row, names)
        return found

    def _adopt(self, m: Memory, row: dict[str, Any], names: dict[UUID, str]) -> None:
        """Take over what the rules leave open."""
        if m.unsettled and m.is_living and row["status"] in LIVING and m.marked_wrong is not True:
            m.shown = row["status"]
        if m.link_unsure:
            m.supersedes = names.get(row["supersedes_id"], "")
            m.link_unsure = m.state == "archived"

    def _in_memory(self, m: Memory, row: dict[str, Any], names: dict[UUID, str]) -> list[str]:
        found = []
        if row["status"] != m.status:
            reason = f" ({row['stale_reason']})" if row["stale_reason"] else ""
            why = f" by {m.superseded_by}" if m.state == "superseded" else f" ({self.e.why(m)})" if m.is_living else ""
            found.append(f"{m.name} is {row['status']}{reason}, not {m.status}{why}")
        expected = {
            "created_by": email(m.owner), "persona": m.persona, "visibility": m.visibility, "content": str(m.text),
        }  # fmt: skip
        found += [f"{m.name}: {key} is {row[key]}, not {value}" for key, value in expected.items() if row[key] != value]
        links = {"supersedes": ("supersedes_id", m.supersedes)}
        if m.state == "superseded":
            links["superseded by"] = ("superseded_by", m.superseded_by)
        for label, (column, name) in links.items():
            if (linked := names.get(row[column], "")) != name:
                found.append(f"{m.name} is linked as {label} {linked or 'none'}, not {name or 'none'}")
        return found

    def _in_reviews(self) -> list[str]:
        found, rows, states = [], self.world.insights(), self.world.changeset_states()
        for m in self.e.memories.values():
            row = rows.pop(self.world.ids[m.name], None)
            if (row is None) != (m.insight is None):
                found.append(f"{m.name} is {'no' if row is None else 'an'} insight")
            elif row and m.insight:
                changeset = self.world.changesets.get(m.insight.changeset)
                state, right = row["state"], m.insight.state
                found += [f"the insight {m.name} is {state}, not {right}"] if state != right else []
                found += [f"{m.name} belongs to another changeset"] if row["changeset_id"] != changeset else []
                waits = bool(row["pending_edit"])
                found += [f"an edit of {m.name} waits: {waits}"] if waits != bool(m.insight.pending_edit) else []
        for name, changeset in self.e.changesets.items():
            state = states[self.world.changesets[name]]
            found += [f"{name} is {state}, not {changeset.state}"] if state != changeset.state else []
        return found

    def _in_catalog(self) -> list[str]:
        values = self.world.values(list(self.e.entities))
        expected = {
            (entity.name, place): entity.value(place)
            for entity in self.e.entities.values()
            for place in entity.layers
            if entity.value(place)
        }
        return [
            f"{place} of {name} is {values.get((name, place))}, not {expected.get((name, place))}"
            for name, place in sorted(values.keys() | expected.keys())
            if values.get((name, place)) != expected.get((name, place))
        ]

    def compare_views(self, who: str) -> None:
        """Compare what a person sees, lists and recalls."""
        person, ids = BY_NAME[who], self.world.ids
        rows = list(self.e.memories.values())
        names = {pk: name for name, pk in ids.items()}
        expected = {
            "sees": ({m.name for m in rows if self.e.sees(person, m)}, self.world.visible(who)),
            "sees as insights": (
                {m.name for m in rows if m.insight and self.e.sees_insight(person, m)},
                self.world.visible_insights(who),
            ),
        }
        for status in ("active", "stale"):
            listed = {m.name for m in rows if m.status == status and self.e.sees(person, m)}
            expected[f"lists as {status}"] = (listed, self.world.listed(who, status))
        found = [
            f"{who} {verb} {_names(seen)}, not {_names(right)}"
            for verb, (right, pks) in expected.items()
            if (seen := {names[pk] for pk in pks}) != right
        ]
        if found:
            self._fail(found)
        self._compare_recall(person, names)

    def _compare_recall(self, person: Person, names: dict[UUID, str]) -> None:
        """Of a plain memory and an insight with the same text, recall may show one."""
        entities = list(self.e.entities)
        right = [m for m in self.e.recalled(person) if m.entities]
        recalled = {names[pk] for pk in self.world.recalled(person.name, entities)}
        found = recalled - {m.name for m in right}
        missing = {m.name for m in right if m.text not in {self[name].text for name in recalled if name not in found}}
        if found or missing:
            self._fail([f"{person.name} recalls {_names(found)} wrongly, and not {_names(missing)}"])

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


def shortest(callers: dict[str, Caller], found: Differs) -> Differs:
    """Leave out each step without which the story still ends in the same way."""
    steps = found.steps
    for length in (8, 4, 2, 1, 1):
        position = len(steps) - 1 - length
        while position >= 0:
            shorter = [*steps[:position], *steps[position + length :]]
            if (again := _retold(callers, shorter)) and again.what == found.what:
                steps, found = again.steps, again
            position -= length
    return found


def _retold(callers: dict[str, Caller], steps: list[Step]) -> Differs | None:
    """Tell a story again. Steps about memories and changesets that it does not have are left out."""
    story = Story(callers)
    try:
        for step in steps:
            story.e.written, story.e.texts, story.e.applied = step.counts
            with suppress(KeyError):
                story.tell(step.verb, *deepcopy(step.arguments), **deepcopy(step.options))
    except Differs as differs:
        return differs
    finally:
        story.close()
    return None


def _to_pending(e: Expected, person: Person, m: Memory) -> None:
    reviews.back_to_pending(e, m)


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
    if "text" in changes:
        fields["content"] = str(changes["text"])
    subjects = _subjects(changes.get("entities", []), changes.get("columns", {}))
    fields |= {"entity_urns": subjects["entity_urns"]} if "entities" in changes else {}
    return fields | ({"related_columns": subjects["related_columns"]} if "columns" in changes else {})


def _about(entities: list[str], columns: dict[str, set[str]], text: Text) -> str:
    listed = [f"{name}.{column}" for name, listed in columns.items() for column in sorted(listed)]
    parts = [f" about {', '.join(entities)}" if entities else ""]
    parts += [f", listing {', '.join(listed)}"] if listed else []
    parts += [f", naming {text.entity}.{text.column} ({text.style})"] if text.column else []
    return "".join(parts)


def _edited(changes: dict[str, Any]) -> str:
    texts = {
        "text": lambda text: "a new text" + _about([], {}, text),
        "entities": lambda entities: f"it is about {', '.join(entities) or 'nothing'}",
        "columns": lambda columns: f"it lists {_about([], columns, Text(0))[10:] or 'no columns'}",
        "tags": lambda tags: "its tags",
    }
    return ", ".join(texts[name](value) for name, value in changes.items())


def _changed(entity: Entity, exists: bool, columns: dict[str, tuple[str, bool]]) -> str:
    if exists != entity.exists:
        return f"others {'add' if exists else 'remove'} {entity.name}"
    dropped, added = entity.columns.keys() - columns.keys(), columns.keys() - entity.columns.keys()
    changed = [name for name in columns.keys() & entity.columns.keys() if columns[name] != entity.columns[name]]
    parts = [f"drop {name}" for name in dropped] + [f"add {name}" for name in added]
    parts += [f"change {name} to {columns[name]}" for name in changed]
    return f"others {' and '.join(parts) or 'ingest again'} in {entity.name}"


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
