"""Health checks of the file MCP_UPSTREAMS. Declarations of the admin are checked when they are saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from django.conf import settings
from django.utils.translation import gettext_noop

from foundation.database import identity
from foundation.operations.errors import DomainError
from memory_project.mcp.gateway import declaration, registry
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.operating.doctor.findings import HealthFinding, listed, ok, text, unknown, warning
from memory_project.operating.doctor.registry import Reads, health_check


@health_check("systems", gettext_noop("File of upstream servers"), Reads.SETTINGS, number="W004")
def upstreams_file() -> HealthFinding:
    try:
        _upstreams_of_file()
    except DomainError as error:
        found = text(gettext_noop("MCP_UPSTREAMS can't be used: %(error)s."), error=error.message)
        return warning(found, text(gettext_noop("Correct the file: none of its servers is used.")))
    return ok(gettext_noop("no file of declarations has an error"))


@health_check("systems", gettext_noop("Variables of upstream servers"), Reads.SETTINGS, number="W005")
def upstreams_variables() -> HealthFinding:
    try:
        upstreams = _upstreams_of_file()
    except DomainError:
        return unknown(gettext_noop("not checked, because the file can't be used"))
    missing = [
        f"{name}: {variable}" for name, upstream in upstreams.items() for variable in upstream.missing_variables()
    ]
    if not missing:
        return ok(gettext_noop("no environment variable of the file is missing"))
    found = text(
        gettext_noop("Upstream servers need environment variables that are not set (%(names)s)."), names=listed(missing)
    )
    return warning(found, text(gettext_noop("Set them, or take the servers out of MCP_UPSTREAMS.")))


@health_check("systems", gettext_noop("Declarations of upstream servers"), Reads.DATABASE)
def upstreams_declared() -> HealthFinding:
    """Check the declarations of the admin, beside those of the file."""
    with identity.service("gateway"):
        upstreams, problems = registry.declared()
    faults = [f"{name}: {problem}" for name, problem in problems.items()]
    faults += [
        f"{name}: {variable}" for name, upstream in upstreams.items() for variable in upstream.missing_variables()
    ]
    if not faults:
        return ok(
            gettext_noop("%(count)s upstream servers are declared, and none lacks anything"), count=len(upstreams)
        )
    found = text(gettext_noop("Upstream servers can't be used: %(faults)s"), faults=listed(faults))
    fix = gettext_noop("Correct the declaration, or set the environment variable: see the page Connected systems.")
    return warning(found, text(fix))


def _upstreams_of_file() -> Mapping[str, Upstream]:
    return declaration.from_file(Path(settings.MCP_UPSTREAMS)) if settings.MCP_UPSTREAMS else {}
