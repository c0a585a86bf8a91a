"""Differences between what is expected and what the product says, as texts."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tests.model import caveats, validity
from tests.model.expected import Expected, Memory, Person
from tests.model.world import World, email, urn

LIVING = {"active", "stale"}


def differences(e: Expected, world: World) -> list[str]:
    """Compare memories, insights, changesets and the values in the catalog.

    What the rules leave open is taken over from the product.
    """
    of_reviews = [*_of_insights(e, world), *_of_changesets(e, world), *_of_questions(e, world)]
    found = [*_of_memories(e, world), *of_reviews, *_of_values(e, world)]
    return found or caveats.differences(e, world)


def _of_memories(e: Expected, world: World) -> list[str]:
    rows, verified, checked = world.memories(), world.verified(), world.checked()
    ids = {world.ids[name]: name for name in e.memories}
    names = {pk: name for name, pk in world.ids.items()} | ids
    found = [f"{names.get(pk, 'another memory')} exists" for pk in rows.keys() - ids.keys()]
    found += [f"{ids[pk]} does not exist" for pk in ids.keys() - rows.keys()]
    for name, m in e.memories.items():
        if row := rows.get(world.ids[name]):
            _take_over(m, row, names)
            found += _of_memory(e, m, row, names)
            if (world.ids[name] in verified) != m.is_verified:
                found.append(f"{name} is {'not ' if m.is_verified else ''}verified by a second person")
            if (world.ids[name] in checked) != (m.check is not None):
                found.append(f"{name} has {'no' if m.check else 'a'} check")
            editor = row["metadata"].get("edited_by", "")
            if editor != (email(m.edited_by) if m.edited_by else ""):
                found.append(f"{name} was reworded by {editor or 'nobody'}, not {m.edited_by or 'nobody'}")
    return found


def _take_over(m: Memory, row: dict[str, Any], names: dict[UUID, str]) -> None:
    if m.unsettled and m.is_living and row["status"] in LIVING and m.marked_wrong is not True:
        m.shown = row["status"]
    if m.link_unsure:
        m.supersedes = names.get(row["supersedes_id"], "")
        m.link_unsure = m.state == "archived"


def _of_memory(e: Expected, m: Memory, row: dict[str, Any], names: dict[UUID, str]) -> list[str]:
    found = []
    if row["status"] != m.status:
        reason = f" ({row['stale_reason']})" if row["stale_reason"] else ""
        why = f" by {m.superseded_by}" if m.state == "superseded" else f" ({e.why(m)})" if m.is_living else ""
        found.append(f"{m.name} is {row['status']}{reason}, not {m.status}{why}")
    expected = {
        "created_by": email(m.owner), "persona": m.persona, "visibility": m.visibility, "content": str(m.text),
        "scope": m.scope,
        "unsettled": m.asked, "entity_urns": [urn(name) for name in m.entities],
    }  # fmt: skip
    if (end := validity.end_of(row)) != m.ends:
        found.append(f"{m.name} ends {end or 'never'}, not {m.ends or 'never'}")
    found += [f"{m.name}: {key} is {row[key]}, not {value}" for key, value in expected.items() if row[key] != value]
    links = {"supersedes": ("supersedes_id", m.supersedes)}
    if m.state == "superseded":
        links["superseded by"] = ("superseded_by", m.superseded_by)
    for label, (column, name) in links.items():
        if (linked := names.get(row[column], "")) != name:
            found.append(f"{m.name} is linked as {label} {linked or 'none'}, not {name or 'none'}")
    return found


def _of_questions(e: Expected, world: World) -> list[str]:
    """Asking computes what is missing, which closes open questions that nobody needs any more."""
    found, states = [], world.question_states() if e.questions else {}
    for name, question in e.questions.items():
        state, expected = states.get(world.questions[name], "gone"), question.expected_state(e)
        if expected == "open" and state == "closed":
            question.state = state
        elif state != expected:
            found.append(f"the question {name} is {state}, not {expected}")
    return found


def _of_insights(e: Expected, world: World) -> list[str]:
    found, rows = [], world.insights()
    for m in e.memories.values():
        row = rows.get(world.ids[m.name])
        if (row is None) != (m.insight is None):
            found.append(f"{m.name} is {'no' if row is None else 'an'} insight")
        elif row and m.insight:
            if row["state"] != m.insight.state:
                found.append(f"the insight {m.name} is {row['state']}, not {m.insight.state}")
            if row["changeset_id"] != world.changesets.get(m.insight.changeset):
                found.append(f"{m.name} does not belong to {m.insight.changeset or 'no changeset'}")
            if bool(row["pending_edit"]) != bool(m.insight.pending_edit):
                found.append(f"{'an' if row['pending_edit'] else 'no'} edit of {m.name} waits for approval")
    return found


def _of_changesets(e: Expected, world: World) -> list[str]:
    states = world.changeset_states() if e.changesets else {}
    return [
        f"{name} is {state}, not {changeset.state}"
        for name, changeset in e.changesets.items()
        if (state := states[world.changesets[name]]) != changeset.state
    ]


def _of_values(e: Expected, world: World) -> list[str]:
    values = world.values(list(e.entities))
    expected = {
        (entity.name, place): entity.value(place)
        for entity in e.entities.values()
        for place in entity.layers
        if entity.value(place)
    }
    return [
        f"{place} of {name} is {values.get((name, place))}, not {expected.get((name, place))}"
        for name, place in sorted(values.keys() | expected.keys())
        if values.get((name, place)) != expected.get((name, place))
    ]


def differences_of_views(e: Expected, world: World, person: Person) -> list[str]:
    """Compare what a person sees, lists and recalls."""
    rows, who = list(e.memories.values()), person.name
    names = {pk: name for name, pk in world.ids.items()}
    insights = {m.name for m in rows if m.insight and e.sees_insight(person, m)}
    expected = {
        "sees": ({m.name for m in rows if e.sees(person, m)}, world.visible(who)),
        "sees as insights": (insights, world.visible_insights(who)),
    }
    expected["gets attached"] = (caveats.attachable(e, person), world.attachable(who))
    for status in sorted({*LIVING, "expired"}):
        listed = {m.name for m in rows if _listed_as(m) == status and e.sees(person, m)}
        expected[f"lists as {status}"] = (listed, world.listed(who, status))
    found = [
        f"{who} {verb} {_names(seen)}, not {_names(right)}"
        for verb, (right, pks) in expected.items()
        if (seen := {names[pk] for pk in pks}) != right
    ]
    return found or _of_recall(e, world, person, names)


def _listed_as(m: Memory) -> str:
    return "expired" if m.status == "active" and m.ends == "past" else m.status


def _of_recall(e: Expected, world: World, person: Person, names: dict[UUID, str]) -> list[str]:
    """Of a plain memory and an insight with the same text, recall may show one."""
    readable = e.recalled(person)
    right = {m.name: m.text for m in readable if m.entities}
    may_be_detected = {m.name for m in readable if not m.entities and m.text.style == "dotted"}
    recalled = {names[pk] for pk in world.recalled(person.name, list(e.entities))}
    texts = {right[name] for name in recalled & right.keys()}
    missing = {name for name, text in right.items() if text not in texts}
    wrong = recalled - right.keys() - may_be_detected
    if not wrong and not missing:
        return []
    return [f"{person.name} recalls {_names(wrong)} wrongly, and does not recall {_names(missing)}"]


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
