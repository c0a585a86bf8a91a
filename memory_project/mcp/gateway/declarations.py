"""Declarations of upstreams in the admin: operators save and delete them.

The pins of an upstream outlast its declaration. Another server of the same name is therefore compared with what was
approved, and operators look at what differs.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import DomainError, Forbidden, Invalid
from foundation.people.caller import Caller
from memory_project.mcp.gateway import audit_events, declaration, registry
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import DeclaredUpstream, UpstreamStatus


def check(name: str, text: str) -> Upstream:
    """Return the upstream of a declaration in the admin.

    Raises Invalid. The field of a problem with the name is `name`, and others begin with the name of the upstream.
    """
    if not declaration.NAME.fullmatch(name):
        raise Invalid(gettext("is not a name of an upstream"), field="name", allowed=declaration.NAME_RULE)
    if collision := registry.collision_of(name):
        raise Invalid(collision, field="name", allowed=gettext("another name"))
    if name in of_file():
        raise Invalid(
            gettext("is declared in MCP_UPSTREAMS, which takes precedence"),
            field="name",
            allowed=gettext("another name"),
        )
    return declaration.parse_text(name, text)


def of_file() -> dict[str, Upstream]:
    """Return the upstreams that the file declares. A file with errors declares none."""
    if not settings.MCP_UPSTREAMS:
        return {}
    try:
        return declaration.from_file(Path(settings.MCP_UPSTREAMS))
    except DomainError:  # the System page says what is wrong
        return {}


def save(caller: Caller, *, declared: DeclaredUpstream) -> DeclaredUpstream:
    """Check and store a new or changed declaration. The upstream is listed within seconds.

    Raises Forbidden unless the caller is an operator, and Invalid.
    """
    require_operator(caller)
    check(declared.name, declared.declaration)
    with identity.service("gateway"), transaction.atomic():
        declared.updated_at = timezone.now()
        declared.save()
        list_soon(declared.name)  # what was found under the earlier declaration says nothing about this one
        audit_events.record(caller, "save", upstream=declared.name, is_enabled=declared.is_enabled)
    return declared


def list_soon(name: str) -> None:
    """Forget the last failure of an upstream, so that it is listed within seconds instead of minutes."""
    with identity.service("gateway"):
        UpstreamStatus.objects.filter(name=name).update(listed_at=None, failed_at=None, error="")


def delete(caller: Caller, *, declared: DeclaredUpstream) -> None:
    """Delete a declaration. Agents lose the tools; their pins and the decisions about them stay."""
    require_operator(caller)
    with identity.service("gateway"), transaction.atomic():
        audit_events.record(caller, "delete", upstream=declared.name)
        declared.delete()
        UpstreamStatus.objects.filter(name=declared.name).delete()


def require_operator(caller: Caller) -> None:
    if not caller.is_operator:
        raise Forbidden(gettext("only operators can manage upstream servers"))
