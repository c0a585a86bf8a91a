"""Names of people, for pages that know their e-mail addresses.

All names are read with the first one that a request needs, so a page needs one query however many people it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse
from django.utils.functional import SimpleLazyObject

from memories.contract.display import show_invisible
from memory_project.models import User

_names: ContextVar[Mapping[str, str] | None] = ContextVar("names_of_people", default=None)


def name_of(email: str) -> str:
    """Return the name of the person with this address, or the address if no account has it or it has no name.

    The address follows the name if several people have the same name.
    """
    names = _names.get()
    if names is None:  # outside of a request
        names = _read_names()
    return show_invisible(names.get(email, email))


@contextmanager
def read_once() -> Iterator[None]:
    """Read the names at most once within the block."""
    token = _names.set(SimpleLazyObject(_read_names))  # type: ignore[arg-type]  # a proxy of the mapping
    try:
        yield
    finally:
        _names.reset(token)


def names_per_request(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that reads the names at most once per request."""

    def middleware(request: HttpRequest) -> HttpResponse:
        with read_once():
            return get_response(request)

    return middleware


def _read_names() -> Mapping[str, str]:
    names = dict(User.objects.exclude(name="").values_list("email", "name"))
    uses = Counter(map(_as_read, names.values()))
    return {email: name if uses[_as_read(name)] == 1 else f"{name} ({email})" for email, name in names.items()}


def _as_read(name: str) -> str:
    return " ".join(name.split()).casefold()
