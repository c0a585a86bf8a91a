from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from foundation.operations.errors import DomainError
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.mirror import Mirrored
from knowledge.freshness.catalog_events import copy_catalog


class Command(BaseCommand):
    help = "Copy DataHub's entities, for reading while DataHub is unavailable. Can be run repeatedly."

    def handle(self, *, verbosity: int = 1, **options: Any) -> None:
        if not settings.DATAHUB_GMS_URL:
            raise CommandError("DATAHUB_GMS_URL is not set: there is nothing to copy.")
        count = Mirrored()
        with tqdm(unit="entities", disable=verbosity < 1 or None) as bar:
            try:
                for progress in copy_catalog(DataHubCatalog.configured()):
                    bar.update(progress.entities - count.entities)
                    count = progress
            except DomainError as error:
                copied = f"{count.entities} entities were copied before the error and are kept. Run the command again"
                raise CommandError(f"{error.message}; {copied}") from None
        self.stdout.write(
            f"{count.entities} entities, {count.writes} aspects new or changed, {count.removals} entities removed"
        )
        for reason, number in count.unusable.most_common():
            self.stderr.write(f"not copied: {number} × {reason}")
