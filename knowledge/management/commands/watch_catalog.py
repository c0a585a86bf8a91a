from __future__ import annotations

import signal
import time
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, close_old_connections

from foundation.database import locks
from foundation.database.locks import LeaseLost
from foundation.operations.errors import Conflict, DomainError
from knowledge.freshness.catalog_events import follow_once

STANDBY_S = 5  # seconds between two attempts to take over from another process
PAUSES_S = (1, 2, 5, 10, 30, 60)  # seconds to wait after the first, second, third … consecutive failure


class Command(BaseCommand):
    help = "Follow DataHub's events until stopped. Memories become stale within seconds of a change."

    def handle(self, **options: Any) -> None:
        if not settings.DATAHUB_GMS_URL:
            raise CommandError(
                "DATAHUB_GMS_URL is not set: the embedded catalog has no events; the scheduled check finds its changes."
            )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        reason = ""  # why this process does not follow them
        while True:
            try:
                close_old_connections()
                with locks.exclusive("watcher", UUID(int=0), Conflict("another process follows the events")):
                    self.follow()
            except (Conflict, DatabaseError, psycopg.Error, OSError) as error:
                if str(error) != reason:
                    self.stdout.write(f"waiting to take over: {first_line(error)}")
                reason = str(error)
                time.sleep(STANDBY_S)

    def follow(self) -> None:
        """Follow events until stopped. Raises LeaseLost if another process may have taken over."""
        failures = 0
        while True:
            close_old_connections()
            try:
                report = follow_once()
            except LeaseLost:
                raise
            except (DomainError, DatabaseError, OSError) as error:
                pause = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
                failures += 1
                self.stderr.write(f"{first_line(error)}; trying again in {pause} s")
                time.sleep(pause)
                continue
            failures = 0
            if report.checked:
                self.stdout.write(
                    f"{report.checked} memories compared, {report.stale} stale, {report.to_verify} to verify"
                )


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _stop(number: int, frame: object) -> None:
    raise SystemExit(0)
