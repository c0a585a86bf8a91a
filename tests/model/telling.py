"""The telling of a story: verbs performed on the product and on what is expected, compared after each step.

Each step is a sentence, so that a difference is read as the story that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NoReturn

from foundation.people.caller import Caller
from tests.model import bulk, citations
from tests.model.comparison import differences, differences_of_views
from tests.model.entities import catalog
from tests.model.expected import ALLOWED, PEOPLE, Expected, Memory
from tests.model.world import World

BY_NAME = {person.name: person for person in PEOPLE}


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


class Telling:
    """Performs steps, and compares all that the product says with what is expected."""

    def __init__(self, callers: dict[str, Caller]) -> None:
        self.e = Expected(catalog())
        self.world = World(callers)
        self.documents = citations.Documents(self.e)
        self.sentences: list[str] = []
        self.steps: list[Step] = []
        self.has_failed = False
        self.handed_over: tuple[str, str, list[str], list[str]] | None = None  # from, to, memories, documents
        self.done_at_once: bulk.Done | None = None  # the last bulk action
        self.seen: dict[str, tuple[Any, ...]] = {}  # what the pages of insights showed that are open

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

    def _step(
        self,
        sentence: str,
        refusals: set[str],
        act: Callable[[], object],
        effect: Callable[[], object],
        *,
        keeps: bool = False,
    ) -> bool:
        """Perform a verb on the product. If it is not refused, change what is expected. Return whether it was done."""
        self.sentences.append(sentence)
        try:
            refusal = self.world.attempt(act, keeps=keeps)
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

    def compare(self) -> None:
        found = differences(self.e, self.world)
        if self.documents.rows:
            self.documents.follow()
            found += self.documents.differences(self.world.documents())
        if found:
            self._fail(found)

    def compare_views(self, who: str) -> None:
        """Compare what a person sees, lists and recalls."""
        if found := differences_of_views(self.e, self.world, BY_NAME[who]):
            self._fail(found)
