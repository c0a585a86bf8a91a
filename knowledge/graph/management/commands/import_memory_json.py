from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError
from foundation.people.permissions import build_caller
from knowledge.graph import jsonl
from knowledge.graph.operations import Migrate


class Command(BaseCommand):
    help = "Import the file of Anthropic's memory server into a graph. With --export, write one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="path of the file; with --export, - is standard output")
        parser.add_argument("--as", dest="email", required=True, help="e-mail address of the user whose graph is used")
        parser.add_argument("--graph", default="", help="persona whose graph is used instead of the user's own")
        parser.add_argument("--export", action="store_true", help="write the graph to the file")

    def handle(self, *, file: str, email: str, graph: str, export: bool, **options: Any) -> None:
        person = get_user_model()._default_manager.filter(email=email.strip().lower()).first()
        if person is None:
            raise CommandError(f"There is no user {email!r}. The admin lists all users under People.")
        try:
            caller = build_caller(person, channel="command", graph=graph)
            if export:
                text = "\n".join(jsonl.export_lines(caller))
                sys.stdout.write(text + "\n") if file == "-" else Path(file).write_text(text, "utf-8", newline="\n")
                return
            imported = jsonl.migrate(caller, Migrate.read({"source_path": file}))
        except DomainError as error:
            raise CommandError(error.message) from None
        for problem in imported.problems:
            self.stderr.write(problem)
        if not imported.recognized and (imported.errors or imported.skipped):
            raise CommandError("nothing was imported: the file is not one of Anthropic's memory server, see above")
        self.stdout.write(
            f"{imported.entities} entities and {imported.relations} relations imported; "
            f"{imported.errors} lines were not JSON, {imported.skipped} were skipped"
        )
