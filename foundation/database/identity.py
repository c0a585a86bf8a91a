"""The identity under which this thread's SQL statements run, which PostgreSQL's row-level security checks.

A channel sets the identity when it has built the Caller. The database engine sends it with each transaction
(engine/base.py), and the policies of the tables compare it with the owner, persona and visibility of a row
(policies.py). Without an identity, statements find no rows and can't insert any.

Work that looks across people runs under a service: a name from SERVICES. A service may read and change all rows, so
its block should be as short as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

SEPARATOR = "\x1f"  # between the names of personas; names contain no control characters
EVERYONE = "*"  # stands for rows that everyone may read; no persona has this name


class Person(Protocol):
    """The part of a Caller that the policies need."""

    @property
    def email(self) -> str: ...
    @property
    def personas(self) -> frozenset[str]: ...
    @property
    def is_admin(self) -> bool: ...
    @property
    def is_curator(self) -> bool: ...


@dataclass(frozen=True)
class Identity:
    """The values that the policies read. The field names are the names of PostgreSQL's parameters."""

    email: str = ""
    shared: str = ""  # names of the personas that the person holds, and EVERYONE
    curates: str = ""  # names of the personas whose insights the person reviews
    sees_all: str = ""  # "on" for admins and services
    service: str = ""  # name of the service, for whoever reads a statement's parameters; no policy uses it


NOBODY = Identity()
ANONYMOUS = Identity(service="anonymous")  # of a request whose caller is not known yet; it has no rights either
Item = TypeVar("Item")

# Services and the reason why each must look across people. docs/security.md lists them.
SERVICES: dict[str, str] = {
    "checks": "the checks of all people's memories run on a schedule, each with the rights of its author",
    "command": "manage.py is run by an operator, who has the database anyway",
    "citations": "a document that cites a memory belongs to another person than the one who changes the memory",
    "copies": "copies of a memory leave the analyses of people who may no longer read it",
    "correction_chains": "a chain may lead through memories that the caller may not read, and the correction that a "
    "curator makes in the name of the owner can be private",
    "debt": "calls of all people are counted by entity, and a question may be known to somebody else",
    "entity_detection": "a new entity of the catalog is linked to the memories of all people",
    "erasure": "an erased memory leaves the analyses, notices and reviews of other people, too",
    "freshness": "a change of the catalog makes the memories of all people stale",
    "gateway": "the tools of upstreams are pinned for all people, and operators sign in upstream for everybody",
    "history": "whether a memory was private at an earlier time decides what is shown of it now",
    "promotion": "a changeset may hold insights of several personas, and supersede memories of other people",
    "operation": "operators see counts and the state of the index, and rebuild it, without reading texts",
    "wipe": "rows that name the wiped person stay with other people under a pseudonym",
    "notices": "a notice belongs to its recipient, but the change of another person causes it",
    "reports": "an admin who undoes the verdict of another person withdraws the report that it has made",
    "webhooks": "an event is stored for the webhook endpoints of other people than the caller",
    "sign_in": "whoever signs in is not known yet, so their link with the company and second factors are not theirs",
    "worker": "scheduled and queued work concerns the memories of all people",
}

_identity: ContextVar[Identity | None] = ContextVar("database_identity", default=None)
_process = NOBODY  # the identity of threads that have none of their own


def current() -> Identity:
    return _identity.get() or _process


def identity_of(person: Person) -> Identity:
    if person.is_admin:
        return Identity(email=person.email, sees_all="on")
    if not person.email:
        return NOBODY
    personas = sorted(person.personas)
    curates = SEPARATOR.join(personas) if person.is_curator else ""
    return Identity(email=person.email, shared=SEPARATOR.join([EVERYONE, *personas]), curates=curates)


def identity_of_service(name: str) -> Identity:
    if name not in SERVICES:
        raise ValueError(f"{name!r} is no service; add it to SERVICES with its reason, or use {', '.join(SERVICES)}")
    return Identity(sees_all="on", service=name)


def act_as(person: Person) -> None:
    """Let the rest of the current context, such as a web request, run under the identity of a person."""
    _identity.set(identity_of(person))


def narrow(person: Person) -> None:
    """Let the rest of the current context run under another person's identity, if it runs under a person's identity."""
    if current() != NOBODY and not current().service:
        act_as(person)


@contextmanager
def acting_as(person: Person | None) -> Iterator[None]:
    """Run a block under the identity of a person, or with None under no identity."""
    with _within(NOBODY if person is None else identity_of(person)):
        yield


def iterate_as(person: Person, items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items under a person's identity, for a response that is sent after its request has ended."""
    with acting_as(person):
        yield from items


@contextmanager
def scoped() -> Iterator[None]:
    """Restore the identity after the block, whatever the block has changed it to."""
    with _within(current()):
        yield


@contextmanager
def anonymous() -> Iterator[None]:
    """Run a block without rights, until `act_as` or a block inside it gives it an identity."""
    with _within(ANONYMOUS):
        yield


@contextmanager
def service(name: str) -> Iterator[None]:
    """Run a block under a service's identity. It may read and change rows of all people."""
    with _within(identity_of_service(name)):
        yield


@contextmanager
def _within(identity: Identity) -> Iterator[None]:
    token = _identity.set(identity)
    try:
        yield
    finally:
        _identity.reset(token)


def run_process_as(name: str) -> None:
    """Give all threads of this process that have no identity of their own the identity of a service."""
    global _process
    _process = identity_of_service(name)
