from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError
from foundation.people.caller import system_caller
from knowledge.catalog.metadata_files import as_proposals
from knowledge.changesets import rollback
from knowledge.changesets.apply import get_changeset


class Command(BaseCommand):
    help = (
        "Write the missing values of an applied changeset again. With --export, write a DataHub metadata file instead."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="id of the changeset")
        parser.add_argument(
            "--export", type=Path, metavar="FILE", help="write the changes to this metadata file instead of the catalog"
        )

    def handle(self, *, id: str, export: Path | None, **options: Any) -> None:
        try:
            if export is None:
                written_count, present_count = rollback.replay(system_caller(), changeset_id=id)
                self.stdout.write(f"{written_count} values written, {present_count} were already there")
                return
            proposals = as_proposals(get_changeset(system_caller(), id).changes.filter(outcome="landed"))
            export.write_text(json.dumps(proposals, indent=1, ensure_ascii=False))
            self.stdout.write(f"{len(proposals)} proposals in {export}")
        except DomainError as error:
            raise CommandError(error.message) from None
        except OSError as error:
            raise CommandError(f"{export}: {error.strerror}") from None
