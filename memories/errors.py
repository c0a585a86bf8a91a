"""What can go wrong, as the domain says it. Every door translates these the same way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
