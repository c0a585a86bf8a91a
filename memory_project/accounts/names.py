"""Names of people, for pages that know their e-mail addresses.

All names are read with the first one that a request needs, so a page needs one query however many people it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property

from django.http import HttpRequest, HttpResponse

from foundation.operations.display import show_invisible
from memory_project.models import User


class Names:
    """The names by e-mail address, as of the first look-up."""

    @cached_property
    def by_email(self) -> Mapping[str, str]:
        names = dict(User.objects.exclude(name="").values_list("email", "name"))
        uses = Counter(map(_as_read, names.values()))
        return {email: name if uses[_as_read(name)] == 1 else f"{name} ({email})" for email, name in names.items()}


_names: ContextVar[Names | None] = ContextVar("names_of_people", default=None)


def name_of(email: str) -> str:
    """Return the name of the person with this address, or the address if no account has it or it has no name.

    The address follows the name if several people have the same name.
    """
    names = _names.get() or Names()  # new ones outside of a request
    return show_invisible(names.by_email.get(email, email))


@contextmanager
def read_once() -> Iterator[None]:
    """Read the names at most once within the block."""
    token = _names.set(Names())
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


def _as_read(name: str) -> str:
    return " ".join(name.split()).casefold()
