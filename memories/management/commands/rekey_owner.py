from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memories.contract.errors import DomainError
from memories.identity.caller import system_caller
from memories.writing.ownership import move_ownership


class Command(BaseCommand):
    help = "Moves all memories from OLD to NEW after a person's identity has changed. Swap OLD and NEW to undo this."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("old", help="the current owner of the memories")
        parser.add_argument("new", help="the e-mail address of the new owner")

    def handle(self, *, old: str, new: str, **options: Any) -> None:
        try:
            moved = move_ownership(caller=system_caller(), old=old, new=new)
        except DomainError as error:
            raise CommandError(error.message) from None
        self.stdout.write(f"{moved} memories moved from {old} to {new}")
