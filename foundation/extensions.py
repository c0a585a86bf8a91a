"""Extension points: what an app has to add to what an app below it does.

The lower app declares a base class with a hook for each point. For each hook there is one function that calls it on all
extensions and says how their answers are combined: `record_saved = EXTENSIONS.tell(MemoryExtension.record_saved)`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from django.utils.module_loading import import_string

from foundation import registry

Extension = TypeVar("Extension")
Answer = TypeVar("Answer")
Key = TypeVar("Key")
Given = ParamSpec("Given")


class Extensions(Generic[Extension]):
    """The extensions of an app, in the order of INSTALLED_APPS."""

    def __init__(self) -> None:
        self._by_path: dict[str, Extension] = {}

    def register(self, path: str) -> None:
        """Register the extension class with this dotted path, which is imported when it is needed first."""
        registry.defer(lambda: self._add(path))

    def _add(self, path: str) -> None:
        self._by_path[path] = import_string(path)()

    def all(self) -> Sequence[Extension]:
        registry.load()
        return tuple(self._by_path.values())

    def tell(self, hook: Callable[Concatenate[Extension, Given], None]) -> Callable[Given, None]:
        """Call the hook of each extension. An error that one raises ends the call."""

        def call(*args: Given.args, **options: Given.kwargs) -> None:
            for answer in self._bound(hook):
                answer(*args, **options)

        return call

    def first(self, hook: Callable[Concatenate[Extension, Given], Answer]) -> Callable[Given, Answer | None]:
        """Return the first answer that is not empty. Further extensions are not asked."""

        def call(*args: Given.args, **options: Given.kwargs) -> Answer | None:
            return next(filter(None, (answer(*args, **options) for answer in self._bound(hook))), None)

        return call

    def any_of(self, hook: Callable[Concatenate[Extension, Given], object]) -> Callable[Given, bool]:
        """Return whether an extension gives an answer that is not empty."""

        def call(*args: Given.args, **options: Given.kwargs) -> bool:
            return any(answer(*args, **options) for answer in self._bound(hook))

        return call

    def listed(self, hook: Callable[Concatenate[Extension, Given], Iterable[Answer]]) -> Callable[Given, list[Answer]]:
        """Return the answers one after the other."""

        def call(*args: Given.args, **options: Given.kwargs) -> list[Answer]:
            return [item for answer in self._bound(hook) for item in answer(*args, **options)]

        return call

    def merged(
        self, hook: Callable[Concatenate[Extension, Given], Mapping[Key, Answer]]
    ) -> Callable[Given, dict[Key, Answer]]:
        """Return the answers in one dictionary. Of equal keys, the last one counts."""

        def call(*args: Given.args, **options: Given.kwargs) -> dict[Key, Answer]:
            return {key: value for answer in self._bound(hook) for key, value in answer(*args, **options).items()}

        return call

    def counted(
        self, hook: Callable[Concatenate[Extension, Given], Mapping[str, int]]
    ) -> Callable[Given, Counter[str]]:
        """Return the sum of the numbers by key."""

        def call(*args: Given.args, **options: Given.kwargs) -> Counter[str]:
            total: Counter[str] = Counter()
            for answer in self._bound(hook):
                total.update(answer(*args, **options))
            return total

        return call

    def sentences(self, hook: Callable[Concatenate[Extension, Given], str]) -> Callable[Given, str]:
        """Return the texts that are not empty as one."""

        def call(*args: Given.args, **options: Given.kwargs) -> str:
            return "; ".join(filter(None, (answer(*args, **options) for answer in self._bound(hook))))

        return call

    def _bound(self, hook: Callable[..., Any]) -> Iterable[Callable[..., Any]]:
        return [getattr(extension, hook.__name__) for extension in self.all()]
