from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.postgres.indexes import GinIndex
from django.core.management.base import BaseCommand
from django.db import connection, models, transaction
from tqdm import tqdm

from foundation.database.owner import as_owner
from memories import extensions
from memories.models.fields import SearchText, text_search_config
from memories.retrieval import term_statistics, vector_index
from memories.writing.language_backfill import backfill_languages


class Command(BaseCommand):
    help = (
        "Rebuild the text search with the current settings. Also detects missing languages of memories, counts the"
        " terms, trains the vector index if necessary, and rebuilds the search data of other apps."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--vector-index", action="store_true", help="only train the vector index, if it is due")

    def handle(self, *, verbosity: int = 1, **options: Any) -> None:
        if options["vector_index"]:
            self.stdout.write(f"the vector index: {vector_index.train()}")
            return
        with as_owner(), transaction.atomic(), connection.schema_editor(atomic=False) as editor:
            for model, field in tqdm([*search_columns()], unit="columns", disable=verbosity < 1 or None, leave=False):
                index = next(i for i in model._meta.indexes if isinstance(i, GinIndex) and field.name in i.fields)
                editor.execute(f"DROP INDEX IF EXISTS {index.name}")
                editor.remove_field(model, field)
                editor.add_field(model, field)
                editor.add_index(model, index)
        detected = backfill_languages()
        row_count = term_statistics.refresh()
        term_count = max(row_count - 1, 0)  # the row for the total is not a term
        self.stdout.write(
            f"text search uses “{text_search_config()}”: {term_count} terms;"
            f" detected the language of {detected} more memories"
        )
        self.stdout.write(f"the vector index: {vector_index.train()}")
        for extension in extensions.EXTENSIONS.all():
            if line := extension.rebuild_search():
                self.stdout.write(line)


def search_columns() -> Iterator[tuple[type[models.Model], models.GeneratedField]]:
    for model in apps.get_models():
        for field in [] if model._meta.proxy else model._meta.local_fields:
            if isinstance(field, models.GeneratedField) and isinstance(vars(field).get("expression"), SearchText):
                yield model, field
