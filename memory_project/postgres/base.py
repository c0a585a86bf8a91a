"""Django's PostgreSQL engine over the embedded server: a connection first makes sure that it runs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.postgresql import base

from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


@cache
def server_of(home: Path) -> EmbeddedPostgres:
    """One for the process: where its folders are does not change."""
    return EmbeddedPostgres(home)


class EmbeddedPostgresAway(psycopg.OperationalError):
    """The embedded server can't be had; `says` is for whoever asked, and for the operator."""

    def __init__(self, says: str) -> None:
        super().__init__(says)
        self.says = says


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        # Looking at the socket costs some 50 µs; so every process starts or repairs the server
        # when it needs it, and none has to be the first.
        try:
            server_of(settings.COMMONPLACE_HOME).ensure_running()
        except EmbeddedPostgresError as error:
            raise EmbeddedPostgresAway(str(error)) from error
        return super().get_new_connection(conn_params)
