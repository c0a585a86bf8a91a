"""The register of health checks. A check is declared once, and all that report on health run it from here.

The command `doctor` and the System page run all of them, a worker those of other systems, Django's `check` and
`migrate` those with a number, and the metrics tell the states that a worker has stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from django.utils.translation import gettext_noop

from memory_project.operating.doctor.findings import HealthFinding, text

AnyCheck = TypeVar("AnyCheck", bound=Callable[..., HealthFinding])
GROUPS = {  # in the order in which they are shown
    "database": gettext_noop("Database"),
    "work": gettext_noop("Background work"),
    "recall": gettext_noop("Recall"),
    "web": gettext_noop("Web server"),
    "machines": gettext_noop("Shared by all machines"),
    "systems": gettext_noop("Other systems"),
    "storage": gettext_noop("Storage and backups"),
}


class Reads(StrEnum):
    """What a check needs, and gets as its argument."""

    SETTINGS = "settings"  # neither the database nor another system
    FACTS = "facts"  # `Facts`: what PostgreSQL says of itself
    TABLES = "tables"  # `TableFacts`: what our tables say
    DATABASE = "database"  # statements of its own
    MACHINES = "machines"  # the cache and the replica, over the network with short time-outs
    SYSTEMS = "systems"  # other systems over the network, so it may be slow


@dataclass(frozen=True)
class HealthCheck:
    group: str
    name: str
    title: str  # a message for gettext
    reads: Reads
    run: Callable[..., HealthFinding]
    number: str = ""  # of Django's system check: E for an error, W for a warning; "" if it is none

    @property
    def shown_title(self) -> str:
        return str(text(self.title))


CHECKS: dict[str, HealthCheck] = {}


def health_check(group: str, title: str, reads: Reads, *, number: str = "") -> Callable[[AnyCheck], AnyCheck]:
    """Register a check under the name of its function. It is shown after those that were registered before."""

    def register(run: AnyCheck) -> AnyCheck:
        name = run.__name__
        if name in CHECKS or group not in GROUPS:
            raise ValueError(f"the name {name} is taken, or there is no group {group}")
        CHECKS[name] = HealthCheck(group, name, title, reads, run, number)
        return run

    return register


def of_kinds(*kinds: Reads) -> list[HealthCheck]:
    return [check for check in CHECKS.values() if check.reads in kinds]
