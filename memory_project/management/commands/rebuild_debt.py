from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from knowledge.debt import computation, uses
from memory_project.audit import entity_uses


class Command(BaseCommand):
    help = "Compute the knowledge debt now. With --all, count all calls again that the audit log still has."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="forget the counts of calls, and read the whole log")

    def handle(self, *, all: bool, **options: Any) -> None:
        if all:
            uses.start_again()
        self.stdout.write(f"{entity_uses.count_new_calls()} calls read; {computation.compute()}")
