"""What can go wrong, as the domain says it. Every door translates these the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import DatabaseError, DataError


class DomainError(Exception):
    """A refusal with a reason; `code` is one of the contract's, `message` is safe to show."""

    code = "invalid"
    status = 400

    def __init__(self, message: str, *, field: str = "", allowed: str = "") -> None:
        self.field = field
        self.fault = message
        self.allowed = allowed
        super().__init__(self.message)

    @property
    def message(self) -> str:
        text = f"{self.field}: {self.fault}" if self.field else self.fault
        return f"{text}; allowed: {self.allowed}" if self.allowed else text


class Invalid(DomainError):
    """A value that can't be: names the field, the fault and what is allowed."""


class NotFound(DomainError):
    """Nothing by that name among what the caller may see."""

    code = "not_found"
    status = 404


class Forbidden(DomainError):
    """The caller sees it but may not do this."""

    code = "forbidden"
    status = 403


class Conflict(DomainError):
    """Somebody or something was there first."""

    code = "conflict"
    status = 409


class LimitReached(DomainError):
    """More than is done in one go."""

    code = "limit"
    status = 422


class Degraded(DomainError):
    """Something this needs is away, and there is no lesser way to answer."""

    code = "degraded"
    status = 503


class Upstream(DomainError):
    """Another system that this asks did not do its part."""

    code = "upstream"
    status = 502


def check_choice(field: str, value: str, allowed: Iterable[str]) -> str:
    options = list(allowed)
    if value not in options:
        raise Invalid(f"{value!r} is unknown", field=field, allowed=", ".join(options))
    return value


def check_length(field: str, value: str, low: int, high: int) -> str:
    """Lengths are counted in characters."""
    if not low <= len(value) <= high:
        fault = f"has {len(value)} characters"
        raise Invalid(fault, field=field, allowed=f"{low} to {high} characters")
    return value


def check_count(field: str, values: Sequence[object], high: int) -> None:
    if len(values) > high:
        raise Invalid(f"has {len(values)} entries", field=field, allowed=f"at most {high}")


TIMED_OUT, DISK_FULL = "57014", "53100"  # PostgreSQL's SQLSTATEs query_canceled and disk_full


def from_database_error(error: Exception) -> DomainError | None:
    """What a fault of the database means to who asked; None for any other error."""
    if isinstance(error, UnicodeError):
        return Invalid("contains characters that can't be stored", allowed="Unicode text without NUL")
    if not isinstance(error, DatabaseError):
        return None
    state = getattr(error.__cause__, "sqlstate", None)
    if state == TIMED_OUT:
        return LimitReached("took longer than a call may and was stopped: ask for less, or narrow it with a condition")
    if state == DISK_FULL:
        return Degraded("the database's disk is full: an operator has to free space")
    if isinstance(error, DataError):
        return Invalid("a value is out of range, or contains characters that can't be stored")
    why = getattr(error.__cause__, "says", "")  # of the embedded server, in a line for people
    return Degraded(f"the database is unavailable: {why}" if why else "the database did not answer; try again")
