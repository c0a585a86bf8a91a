from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import DatabaseError, connections
from django_q.management.commands import qcluster

from memory_project.operating.doctor import machine_facts
from memory_project.operating.shared import secret_key_check, shared_files


class Command(qcluster.Command):  # type: ignore[misc]  # django-q has no types
    help = "Run a background worker."

    def handle(self, *args: Any, **options: Any) -> None:
        secret_key_check.refuse_other_key_at_start()
        with suppress(DatabaseError, OSError):  # a worker waits for a database that is away
            shared_files.note_folder()
            machine_facts.note_machine()
        connections.close_all()  # connections must not be shared with the processes that are forked from now on
        super().handle(*args, **options)
