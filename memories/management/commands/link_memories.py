from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from tqdm import tqdm

from memories.writing import entity_detection


class Command(BaseCommand):
    help = "Detect now which catalog entities memories mention. The worker does it every ten minutes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--all", action="store_true", help="detect anew in all memories, not only where it is due")
        parser.add_argument("--quiet", action="store_true", help="show no progress bar")

    def handle(self, *, all: bool, quiet: bool, **options: Any) -> None:
        if all:
            entity_detection.detect_again()
        completed = 0
        with tqdm(total=entity_detection.undetected().count(), unit="memories", disable=quiet or None) as bar:
            while count := entity_detection.detect_batch():
                completed += count
                bar.update(count)
        self.stdout.write(f"{completed} memories read; none left")
