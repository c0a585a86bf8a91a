from __future__ import annotations

import signal
import time
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, close_old_connections

from knowledge.freshness.catalog_events import follow_once
from memories.contract.errors import DomainError

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
        failures = 0
        while True:
            close_old_connections()
            try:
                report = follow_once()
            except (DomainError, DatabaseError) as error:
                pause = PAUSES_S[min(failures, len(PAUSES_S) - 1)]
                failures += 1
                self.stderr.write(f"{str(error).splitlines()[0]}; trying again in {pause} s")
                time.sleep(pause)
                continue
            failures = 0
            if report.checked:
                self.stdout.write(
                    f"{report.checked} memories compared, {report.stale} stale, {report.to_verify} to verify"
                )


def _stop(number: int, frame: object) -> None:
    raise SystemExit(0)
