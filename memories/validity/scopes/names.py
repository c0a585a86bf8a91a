"""The form of a scope: a kind and a name, as in "persona:sales". A memory without a scope holds everywhere."""

from __future__ import annotations

from django.utils.translation import gettext

from foundation.operations.fields import validation_error

PERSONA, DOMAIN, PURPOSE = "persona", "domain", "purpose"
KINDS = (PERSONA, DOMAIN, PURPOSE)
SCOPE_LENGTH = 520  # a kind, and a URN of 500 characters
FORMS = "persona:NAME, domain:NAME, purpose:NAME"


def check_form(scope: str) -> str:
    """Return the scope. Raise the error of a validator if it has no known kind or no name."""
    kind, _, name = scope.partition(":")
    if scope and (kind not in KINDS or not name.strip()):
        raise validation_error(gettext("%(scope)r is not a scope") % {"scope": scope[:80]}, FORMS)
    return f"{kind}:{name.strip()}" if scope else ""


def are_different(one: str, other: str) -> bool:
    """Return whether two memories with these scopes hold in different places, so that they can't contradict."""
    return bool(one and other) and one != other
