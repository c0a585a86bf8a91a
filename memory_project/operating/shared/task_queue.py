"""The queue of background tasks. A task that a worker can't read is kept, and reported.

django-q deletes a task whose signature is wrong, and ends a process for one that can't be unpickled. Such tasks come
from a process with another secret key, or with a newer version. The right worker still takes them.
"""

from __future__ import annotations

import logging
import pydoc
import socket
from datetime import timedelta
from functools import lru_cache
from time import sleep
from typing import Any

from django.db import InterfaceError, OperationalError, connections
from django.utils import timezone
from django_q import core_signing
from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ
from django_q.signing import BadSignature, PickleSerializer, SignedPackage

from foundation.database import sealing
from memory_project.operating.shared.models import UnreadableTask

log = logging.getLogger(__name__)

AWAY_S = 2.0  # seconds between two looks for tasks while the database is away
# A task with an unknown function may come from a newer version. After this time it is run, and fails visibly.
UNKNOWN_KEPT = timedelta(days=7)


class KeepingBroker(ORM):  # type: ignore[misc]  # django-q has no types
    """django-q's queue in the database, in the order in which tasks were queued."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self.left: set[int] = set()  # tasks that this process can't read, and leaves to others
        self.is_away = False  # whether the database was away at the last look

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.left = set()
        self.is_away = False

    def dequeue(self) -> list[tuple[int, str]] | None:
        """Claim the next tasks that this process can read. Waits before it returns None.

        While the database is away, it waits, too: django-q would end the process of an error, and start another one.
        """
        try:
            claimed = self._claim()
        except (OperationalError, InterfaceError) as error:
            if not self.is_away:
                log.warning("no tasks are taken, because the database is away: %s", error)
            self.is_away = True
            connections[Conf.ORM].close()
            sleep(AWAY_S)
            return None
        self.is_away = False
        return claimed

    def _claim(self) -> list[tuple[int, str]] | None:
        waiting = self.get_connection().filter(key=self.list_key, lock__lt=timezone.now())
        rows = list(waiting.exclude(pk__in=self.left).order_by("pk")[: Conf.BULK])
        if not rows:
            sleep(Conf.POLL)
            return None
        claimed = []
        for row in rows:
            if problem := problem_of(row.payload):
                self.left.add(row.pk)
                mark(row.pk, problem)
            # another worker may have been faster
            elif waiting.filter(pk=row.pk, lock=row.lock).update(lock=self.timeout(row)):
                claimed.append((row.pk, signed_with_own_key(row.payload)))
        return claimed

    def fail(self, task_id: int) -> None:
        # called for a task that could be read when it was claimed; it must not be deleted either
        mark(task_id, "could not be read")


def problem_of(payload: str) -> str:
    """Return why this process can't run a task, or "" if it can."""
    try:
        task = task_of(payload)
    except BadSignature:
        return "is signed with another secret key"
    except Exception as error:  # unpickling imports names, and can raise anything
        return f"can't be unpickled: {type(error).__name__}"
    function = task["func"]
    started = task.get("started")
    is_new = started is None or started > timezone.now() - UNKNOWN_KEPT
    if isinstance(function, str) and is_new and not _is_known(function):
        return f"needs the function {function[:200]}, which this version does not have"
    return ""


def task_of(payload: str) -> dict[str, Any]:
    """Return the task. Raises BadSignature if it is signed with none of the keys that this process knows."""
    for key in sealing.secret_keys():
        try:
            task: dict[str, Any] = core_signing.loads(payload, key=key, salt=Conf.PREFIX, serializer=PickleSerializer)
        except BadSignature:
            continue
        return task
    raise BadSignature("of another key")


def signed_with_own_key(payload: str) -> str:
    """Return the task as django-q reads it, which knows no fallbacks of SECRET_KEY."""
    try:
        SignedPackage.loads(payload)
    except BadSignature:
        return str(SignedPackage.dumps(task_of(payload)))
    return payload


@lru_cache(maxsize=500)  # functions don't change while the process runs
def _is_known(function: str) -> bool:
    try:
        return pydoc.locate(function) is not None
    except pydoc.ErrorDuringImport:
        return True  # the worker reports the error of the module


def mark(task_id: int, reason: str) -> None:
    log.error("the queued task %s is kept for another worker: it %s", task_id, reason)
    UnreadableTask.objects.exclude(task__in=OrmQ.objects.values("pk")).delete()
    values = {"reason": reason[:300], "host": socket.gethostname()[:100], "seen_at": timezone.now()}
    UnreadableTask.objects.update_or_create(task=task_id, defaults=values)


def unreadable() -> list[UnreadableTask]:
    """Return the marks of tasks that are still in the queue, the latest first."""
    return list(UnreadableTask.objects.filter(task__in=OrmQ.objects.values("pk")).order_by("-seen_at"))
