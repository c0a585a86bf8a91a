from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from knowledge.graph import jsonl
from knowledge.graph.operations import Migrate
from memories.contract.errors import DomainError
from memories.identity.permissions import build_caller


class Command(BaseCommand):
    help = "Imports the JSONL file of Anthropic's memory server into a knowledge graph, or writes one with --export."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the file; - for standard output with --export")
        parser.add_argument("--as", dest="email", required=True, help="whose graph, by e-mail address")
        parser.add_argument("--graph", default="", help="a persona's graph instead")
        parser.add_argument("--export", action="store_true")

    def handle(self, *, file: str, email: str, graph: str, export: bool, **options: Any) -> None:
        person = get_user_model()._default_manager.filter(email=email.strip().lower()).first()
        if person is None:
            raise CommandError(f"There is no person {email!r}; the admin lists everybody under People.")
        try:
            caller = build_caller(person, channel="command", graph=graph)
            if export:
                text = "\n".join(jsonl.export_lines(caller))
                sys.stdout.write(text + "\n") if file == "-" else Path(file).write_text(text, encoding="utf-8")
                return
            answer = jsonl.migrate(Migrate(source_path=file), caller=caller)
        except DomainError as error:
            raise CommandError(error.message) from None
        self.stdout.write(
            f"{answer.entities} entities and {answer.relations} relations imported; "
            f"{answer.errors} lines are no JSON, {answer.skipped} say nothing that can be kept"
        )
