from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from django.db import DatabaseError, connections
from django_q.cluster import Cluster
from django_q.management.commands import qcluster

from memory_project.operating.doctor import machine_facts
from memory_project.operating.shared import secret_key_check, shared_files


class Worker(Cluster):  # type: ignore[misc]  # django-q has no types
    """A cluster that also stops if it is asked to while it starts its first process, when django-q drops the signal."""

    is_asked_to_stop = False

    def sig_handler(self, signum: int, frame: Any) -> None:
        self.is_asked_to_stop = True
        if os.getpid() == self.pid and self.sentinel and self.sentinel.is_alive():
            super().sig_handler(signum, frame)


class Command(qcluster.Command):  # type: ignore[misc]  # django-q has no types
    help = "Run a background worker."

    def handle(self, *args: Any, **options: Any) -> None:
        if options["cluster_name"]:
            os.environ["Q_CLUSTER_NAME"] = options["cluster_name"]  # the processes of the worker read it
        secret_key_check.refuse_other_key_at_start()
        with suppress(DatabaseError, OSError):  # a worker waits for a database that is away
            shared_files.note_folder()
            machine_facts.note_machine()
        connections.close_all()  # connections must not be shared with the processes that are forked from now on
        worker = Worker()
        try:
            worker.start()
        except RuntimeError:  # its first process has ended, perhaps by the same signal
            if not worker.is_asked_to_stop:
                raise
        if worker.is_asked_to_stop or options["run_once"]:
            worker.stop()
