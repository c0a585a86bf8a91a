from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.people.permissions import build_caller
from memory_project.exchange.exports import stream
from memory_project.exchange.exports.formats import FORMATS, export_format


class Command(BaseCommand):
    help = "Export the rows of a person, a persona or the installation. They are written as they are read."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--as", dest="email", required=True, help="e-mail address of the person who exports")
        scope = parser.add_mutually_exclusive_group()
        scope.add_argument("--persona", default="", help="what is shared with this persona; for its curators")
        scope.add_argument("--installation", action="store_true", help="the rows of everyone; for admins")
        parser.add_argument("--format", default="jsonl", choices=list(FORMATS), help="default: jsonl")
        parser.add_argument("--output", required=True, help="path of the file; - is standard output")

    def handle(
        self, *, email: str, persona: str, installation: bool, format: str, output: str, verbosity: int, **options: Any
    ) -> None:
        person = get_user_model()._default_manager.filter(email=email.strip().lower()).first()
        if person is None:
            raise CommandError(f"There is no user {email!r}. The admin lists all users under People.")
        name = stream.PERSONA if persona else stream.PERSON
        if installation:
            name = stream.INSTALLATION
        wanted = export_format(format)
        try:
            caller = build_caller(person, channel="command")
            with identity.acting_as(caller):
                scope = stream.scope_of(caller, scope=name, persona=persona)
                written = 0
                with _opened(output) as out, tqdm(unit="rows", disable=verbosity < 1 or None, leave=False) as bar:

                    def report(done: int, total: int) -> None:
                        nonlocal written
                        bar.total = total
                        bar.update(done - written)
                        written = done

                    wanted.write(stream.export_rows(scope, names=wanted.kinds, progress=report), out)
        except DomainError as error:
            raise CommandError(error.message) from None
        if output != "-":
            self.stdout.write(f"{written:,} rows written to {output}")


@contextmanager
def _opened(output: str) -> Iterator[IO[bytes]]:
    """Yield the file. It gets its name when it is complete, and only its owner may read it."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    draft = path.with_name(f"{path.name}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            yield file
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
