from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from foundation.operations.errors import DomainError, NotFound
from foundation.people.caller import system_caller
from memories.models import HandOver
from memories.writing import hand_overs


class Command(BaseCommand):
    help = "Move everything of OLD to NEW after a person's identity has changed. With --undo, take it back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("old", help="the owner of the memories")
        parser.add_argument("new", help="the e-mail address of the new owner")
        parser.add_argument("--undo", action="store_true", help="take back what the last such move moved")

    def handle(self, *, old: str, new: str, undo: bool, **options: Any) -> None:
        caller = system_caller()
        try:
            if undo:
                taken = hand_overs.undo_hand_over(caller, hand_over_id=self._last(old, new).pk)
                kept = taken.pop("kept")
                note = f"; {kept} are gone or belong to someone else" if kept else ""
                self.stdout.write(f"taken back by {old}: {hand_overs.describe(taken) or 'nothing'}{note}")
                return
            moved = hand_overs.hand_over(caller, old=old, new=new)
        except DomainError as error:
            raise CommandError(error.message) from None
        stays = f"; {new} has these already, so they stay: {hand_overs.describe(moved.stays)}" if moved.stays else ""
        self.stdout.write(f"moved from {old} to {new}: {hand_overs.describe(moved.counts) or 'nothing'}{stays}")

    def _last(self, old: str, new: str) -> HandOver:
        for row in hand_overs.open_hand_overs(old):
            if row.to_owner == new.strip().lower():
                return row
        raise NotFound(f"nothing was moved from {old} to {new} that could be taken back")
