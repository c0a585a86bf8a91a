"""The scopes that exist: personas, the catalog's domains, and the purposes that admins keep.

A memory keeps its scope if the persona, domain or purpose is removed later. It then is labeled as removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from memories import extensions
from memories.models import MemoryRecord, Purpose
from memories.validity.scopes.names import FORMS, PERSONA, PURPOSE

MAX_LISTED = 20  # scopes that an error message names


def choices(caller: Caller, of: MemoryRecord | None = None) -> dict[str, str]:
    """Return the scopes that the caller may give to the memory `of`, or to a new one, with their labels.

    These are the personas that the caller holds, and that of the memory, the domains of the catalog and the purposes.
    Admins may name every persona.
    """
    personas = Persona.objects.all()
    if not caller.is_admin:
        personas = personas.filter(name__in=[*caller.personas, *([of.persona] if of else [])])
    found = {f"{PERSONA}:{persona.name}": str(persona) for persona in personas}
    found |= {f"{PURPOSE}:{purpose.name}": str(purpose) for purpose in Purpose.objects.all()}
    found |= extensions.scopes()
    return found


def scope_for(caller: Caller, scope: str, of: MemoryRecord | None = None) -> str:
    """Return the scope in its stored form. The name after the kind may be a label, such as that of a domain.

    The present scope of the memory `of` is always accepted. Raises Invalid if nobody has the scope, or if the caller
    may not name it.
    """
    if not scope or (of is not None and scope == of.scope):
        return scope
    known = choices(caller, of)
    if scope in known:
        return scope
    kind, _, name = scope.partition(":")
    named = [key for key, label in known.items() if key.startswith(f"{kind}:") and label.casefold() == name.casefold()]
    if len(named) == 1:
        return named[0]
    listed = sorted(known, key=lambda key: (not key.startswith(f"{kind}:"), key))[:MAX_LISTED]
    raise Invalid(
        gettext("%(scope)r is a scope that nobody has") % {"scope": scope[:80]},
        field="scope",
        allowed=", ".join(listed) or FORMS,
    )


def labels(scopes: Iterable[str]) -> dict[str, str]:
    """Return the labels of scopes. Those of removed personas, domains and purposes say so."""
    wanted = {scope for scope in scopes if scope}
    kinds = {scope.partition(":")[0] for scope in wanted}
    found: dict[str, str] = {}
    if PERSONA in kinds:
        found |= {f"{PERSONA}:{persona.name}": str(persona) for persona in Persona.objects.all()}
    if PURPOSE in kinds:
        found |= {f"{PURPOSE}:{purpose.name}": str(purpose) for purpose in Purpose.objects.all()}
    if kinds - {PERSONA, PURPOSE}:
        found |= extensions.scopes()
    return {scope: found.get(scope) or _removed(scope) for scope in wanted}


def _removed(scope: str) -> str:
    return gettext("%(name)s (removed)") % {"name": scope.partition(":")[2]}
