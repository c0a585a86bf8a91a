"""The search for a short story that ends like a long one."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy

from foundation.people.caller import Caller
from tests.model.story import Story
from tests.model.telling import Differs, Step


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
