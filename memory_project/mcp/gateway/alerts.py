"""Notifications to operators that tools of an upstream wait for a decision.

Each operator gets at most one for an upstream and day. It is about the upstream, and shows the tools that wait when it
is read.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, time
from uuid import UUID, uuid5

from django.contrib.auth.backends import ModelBackend
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.people.caller import OPERATE, Caller
from memory_project.mcp.gateway.models import WAITING, PinnedTool
from memory_project.mcp.gateway.names import offered_name
from memory_project.models import Notification, User
from memory_project.notifications import inbox

KIND = "tool_waiting"
UPSTREAMS = UUID("0c0f1a0e-8c3b-4d55-9b5e-6f1d2a7c9e41")  # namespace of the ids of upstreams in notifications
NAMES_SHOWN = 5


def id_of(upstream: str) -> UUID:
    """Return the id that stands for an upstream in notifications."""
    return uuid5(UPSTREAMS, upstream)


@identity.service("gateway")
def update(upstream: str) -> None:
    """Notify the operators of tools that have begun to wait, or withdraw the notification if none waits any more."""
    waiting = PinnedTool.objects.filter(upstream=upstream, state__in=WAITING)
    newest = waiting.order_by("-changed_at").values_list("changed_at", flat=True).first()
    notified = Notification.objects.filter(kind=KIND, record_id=id_of(upstream))
    if newest is None:
        notified.filter(read_at=None).delete()
        return
    today = timezone.make_aware(datetime.combine(timezone.localdate(), time()))
    knowing = notified.filter(Q(read_at=None) | Q(at__gte=today) | Q(at__gte=newest)).values("person_id")
    people = _operators().exclude(pk__in=knowing).values_list("email", flat=True)
    inbox.notify(KIND, list(people), record_id=id_of(upstream), by="")


def texts(caller: Caller) -> dict[UUID, str]:
    """Return for each upstream what a notification says now. Empty unless the caller is an operator."""
    if not caller.is_operator:
        return {}
    names: dict[str, list[str]] = defaultdict(list)
    for upstream, tool, state in PinnedTool.objects.values_list("upstream", "tool", "state"):
        names[upstream] += [offered_name(upstream, tool)] if state in WAITING else []
    decided = gettext("no tool waits any more")
    return {id_of(upstream): _some(tools) or f"{upstream}: {decided}" for upstream, tools in names.items()}


def _some(tools: list[str]) -> str:
    shown = ", ".join(tools[:NAMES_SHOWN])
    return f"{shown}, … ({len(tools)})" if len(tools) > NAMES_SHOWN else shown


def _operators() -> QuerySet[User]:
    operators: QuerySet[User] = ModelBackend().with_perm(f"memory_project.{OPERATE}")  # the active ones, with admins
    return operators
