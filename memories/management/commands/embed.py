from __future__ import annotations

import signal
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django_q.tasks import async_task
from tqdm import tqdm

from foundation import embedding
from foundation.database import locks
from foundation.database.owner import as_owner
from foundation.embedding import calibration
from foundation.operations.errors import Conflict
from memories.models import MemoryRecord
from memories.retrieval import indexing, term_statistics, vector_index

FITTING_S = 600.0  # seconds that all requests of a calibration may take


def _exit(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


class Command(BaseCommand):
    help = "Compute missing and outdated vectors now. Needed after a change of the embedding model."
    requires_system_checks = ()  # this command repairs a wrong dimension, which the checks report

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dimension", type=int, help="first change the vector columns to this dimension")
        parser.add_argument(
            "--calibrate",
            nargs="?",
            const="on",
            choices=("on", "off"),
            help="only bring the cosines of a model that is chosen by name or URL to the scale of the thresholds, "
            "with the memories of this installation; `off` undoes it",
        )
        parser.add_argument("--all", action="store_true", help="recompute all vectors, also up-to-date ones")
        parser.add_argument("--quiet", action="store_true", help="show no progress bar")

    def handle(self, *, dimension: int | None, calibrate: str | None, all: bool, quiet: bool, **options: Any) -> None:
        if dimension is not None:
            self.change_dimension(dimension)
        if calibrate is not None:
            return self.calibrate(is_on=calibrate == "on")
        try:
            model = embedding.current(wait_s=300).name
        except embedding.EmbedderUnavailable as error:
            raise CommandError(str(error)) from None
        busy = Conflict("another `embed` is running")
        with locks.exclusive(*indexing.EMBED_LOCK, busy), self.handing_over():
            self.embed(model, all, quiet)

    def embed(self, model: str, all: bool, quiet: bool) -> None:
        indexing.reap()
        if all:
            for source in indexing.SOURCES.values():
                source.rows().update(embedding_text_hash=None)
        pending = self.count_pending(model)
        self.stdout.write(f"{pending} of {sum(source.rows().count() for source in indexing.SOURCES.values())} left")
        completed = self.embed_pending(model, pending, quiet)
        term_statistics.refresh()
        vector_index.train()
        remaining = self.count_pending(model)
        if remaining:
            raise CommandError(f"{completed} of {pending} embedded with {model}; {remaining} left: run embed again")
        self.stdout.write(f"{completed} embedded with {model}; none left")

    def count_pending(self, model: str) -> int:
        return sum(source.gaps(model).count() for source in indexing.SOURCES.values())

    @contextmanager
    def handing_over(self) -> Iterator[None]:
        """Let the worker go on at once if the command is stopped. After a kill -9, it does so within two minutes."""
        earlier = signal.signal(signal.SIGTERM, _exit)
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            async_task("memories.tasks.close_gaps")
            self.stderr.write(
                "Stopped. A running worker goes on with the rest; the page Indexing shows how much is left."
            )
            raise
        finally:
            signal.signal(signal.SIGTERM, earlier)

    def embed_pending(self, model: str, pending: int, quiet: bool) -> int:
        completed = 0
        with tqdm(total=pending, unit="memories", disable=quiet or None) as bar:
            while True:
                batch = self.next_batch(model)
                if not batch:
                    return completed
                kind, texts = batch
                try:
                    indexing.index(kind, texts, embedding.Waiting.BATCH)
                except embedding.EmbedderUnavailable as error:
                    raise CommandError(f"stopped after {completed}: {error}") from None
                completed += len(texts)
                bar.update(len(texts))

    def next_batch(self, model: str) -> tuple[str, dict[UUID, str]] | None:
        for kind, source in indexing.SOURCES.items():
            rows = source.gaps(model).values_list("pk", source.text)[: indexing.BATCH]
            if texts := dict(rows):
                return kind, texts
        return None

    def calibrate(self, *, is_on: bool) -> None:
        """Compute the calibration of the model, or forget it.

        Vectors are not computed anew: processes that have loaded the model without it would undo that.
        """
        if settings.EMBEDDING_PROVIDER not in calibration.PROVIDERS:
            raise CommandError(
                f"--calibrate: EMBEDDING_PROVIDER={settings.EMBEDDING_PROVIDER} needs no calibration; "
                f"{' and '.join(calibration.PROVIDERS)} do"
            )
        try:
            if is_on:
                self.fit()
            elif not calibration.drop(settings.EMBEDDING_MODEL):
                raise CommandError(f"--calibrate off: {settings.EMBEDDING_MODEL} has no calibration on this machine")
        except embedding.EmbedderUnavailable as error:
            raise CommandError(str(error)) from None
        embedding.reset()
        self.stdout.write("Now restart all processes, which read it when they load the model, and then run `embed`.")

    def fit(self) -> None:
        rows = MemoryRecord.objects.order_by("?").values_list("content", flat=True)
        texts = list(rows[: calibration.MAX_TEXTS])
        if len(texts) < calibration.MIN_TEXTS:
            raise CommandError(
                f"--calibrate: there are {len(texts)} memories, and a calibration needs {calibration.MIN_TEXTS}. "
                "Until then, thresholds are those of MiniLM."
            )
        file = calibration.fit(embedding.uncalibrated(), texts, timeout_s=FITTING_S)
        self.stdout.write(f"calibrated {settings.EMBEDDING_MODEL} with {len(texts)} memories")
        self.stdout.write(f"Copy {file} to COMMONPLACE_HOME/models of each other machine.")

    def change_dimension(self, dimension: int) -> None:
        """Change the dimension of every vector column and delete the old vectors. No migration does this."""
        if dimension != settings.EMBEDDING_DIMENSIONS:
            raise CommandError(f"Set EMBEDDING_DIMENSIONS={dimension} first: every process reads it at its start.")
        with as_owner(), connection.schema_editor() as editor:
            vector_index.drop()
            for source in indexing.SOURCES.values():
                self.alter(editor, source)
        tables = ", ".join(source.vectors._meta.db_table for source in indexing.SOURCES.values())
        self.stdout.write(f"the vector columns of these tables have {dimension} dimensions now: {tables}")

    def alter(self, editor: Any, source: indexing.VectorSource) -> None:
        model = source.vectors
        name = source.vector_column
        table = editor.quote_name(model._meta.db_table)
        column: Any = model._meta.get_field(name)
        if column.null:
            model._base_manager.update(**{name: None})
        else:
            model._base_manager.all().delete()
        source.model._base_manager.update(embedding_model="", embedding_text_hash=None)
        editor.execute(f"ALTER TABLE {table} ALTER COLUMN {editor.quote_name(name)} TYPE {column.db_type(connection)}")
