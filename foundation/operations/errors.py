"""Errors of the domain. Every channel (portal, REST, MCP, command line) shows their `message` to the caller."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from django.db import DatabaseError, DataError
from django.utils.translation import gettext

from foundation.operations.near_misses import nearest


class DomainError(Exception):
    """Base class of errors that callers may see.

    `message` is safe to show to the caller. Its form is `field: what is wrong; allowed: …`. Clients rely on `code`.
    """

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
        return with_allowed(text, self.allowed)


def with_allowed(fault: str, allowed: str) -> str:
    """Return the description of a fault, followed by the allowed values if there are any."""
    return gettext("%(fault)s; allowed: %(allowed)s") % {"fault": fault, "allowed": allowed} if allowed else fault


class Invalid(DomainError):
    """A value is not valid. The message names the field, the problem and the allowed values."""


class NotFound(DomainError):
    """The object does not exist, or the caller may not see it."""

    code = "not_found"
    status = 404


class Forbidden(DomainError):
    """The caller may not do this. If the caller may not even see the object, NotFound is raised instead."""

    code = "forbidden"
    status = 403


class Conflict(DomainError):
    """The object's current state rules out the operation, for example because another caller has changed the object."""

    code = "conflict"
    status = 409


class LimitReached(DomainError):
    """The request exceeds a limit on its size, its duration or the number of calls."""

    code = "limit"
    status = 422


class TooManyRequests(LimitReached):
    """The request would succeed later. `retry_after_s` is the number of seconds to wait."""

    status = 429

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)


class Degraded(DomainError):
    """The operation needs a component that is unavailable."""

    code = "degraded"
    status = 503


class Upstream(DomainError):
    """A request to another system failed."""

    code = "upstream"
    status = 502


def check_choice(field: str, value: str, allowed: Iterable[str], *, never: Collection[str] = ()) -> str:
    """Return the value. Raise Invalid with the nearest allowed one, unless that is in `never`."""
    options = list(allowed)
    if value in options:
        return value
    raise Invalid(unknown(value, nearest(value, options, never=never)), field=field, allowed=", ".join(options))


def unknown(value: str, guess: str) -> str:
    """Return the problem of an unknown value, with what was probably meant."""
    if guess:
        return gettext("%(value)r is unknown: did you mean %(guess)s?") % {"value": value, "guess": guess}
    return gettext("%(value)r is unknown") % {"value": value}


def check_length(field: str, value: str, low: int, high: int) -> str:
    if not low <= len(value) <= high:
        raise Invalid(
            gettext("has %(count)s characters") % {"count": len(value)},
            field=field,
            allowed=gettext("%(low)s to %(high)s characters") % {"low": low, "high": high},
        )
    return value


def check_count(field: str, values: Sequence[object], high: int) -> None:
    if len(values) > high:
        raise Invalid(
            gettext("has %(count)s entries") % {"count": len(values)},
            field=field,
            allowed=gettext("at most %(high)s") % {"high": high},
        )


TIMED_OUT, DISK_FULL = "57014", "53100"  # the SQLSTATE codes query_canceled and disk_full of PostgreSQL


def from_database_error(error: Exception) -> DomainError | None:
    """Translate a database error or a UnicodeError into a DomainError. Return None for any other error."""
    if isinstance(error, UnicodeError):  # psycopg can't encode half a surrogate pair
        return Invalid(gettext("contains characters that can't be stored"), allowed=gettext("Unicode text without NUL"))
    if not isinstance(error, DatabaseError):
        return None
    state = getattr(error.__cause__, "sqlstate", None)
    if state == TIMED_OUT:
        return LimitReached(gettext("timed out: request fewer rows or add a filter"))
    if state == DISK_FULL:
        return Degraded(gettext("the database's disk is full: an operator has to free space"))
    if isinstance(error, DataError):
        return Invalid(gettext("a value is out of range, or contains characters that can't be stored"))
    reason = getattr(error.__cause__, "message", "")  # set if the embedded server can't start
    if reason:
        return Degraded(gettext("the database is unavailable: %(reason)s") % {"reason": reason})
    return Degraded(gettext("the database could not complete the request; try again"))
