from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.db import connection, transaction

from memories.database.owner import as_owner
from memories.models import MemoryRecord
from memories.models.fields import text_search_config
from memories.retrieval import lexicon


class Command(BaseCommand):
    help = "Rebuilds the text-search column with the current TEXT_SEARCH_CONFIG, and counts its terms."

    def handle(self, **options: Any) -> None:
        field = MemoryRecord._meta.get_field("search")
        index = next(index for index in MemoryRecord._meta.indexes if index.name == "memory_words")
        with as_owner(), transaction.atomic(), connection.schema_editor(atomic=False) as editor:
            editor.execute("DROP INDEX IF EXISTS memory_words")
            editor.remove_field(MemoryRecord, field)
            editor.add_field(MemoryRecord, field)
            editor.add_index(MemoryRecord, index)
        terms = lexicon.refresh()
        self.stdout.write(f"text search uses “{text_search_config()}”: {max(terms - 1, 0)} terms")
