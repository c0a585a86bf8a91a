"""Django's PostgreSQL engine, which starts the embedded server before connecting."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from django.conf import settings
from django.utils.translation import gettext

from foundation.database.breaker import breaker
from foundation.database.engine import base
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError
from memory_project.operating.postgres.server_log import DISK_FULL

log = logging.getLogger(__name__)


@cache
def get_server(home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(home)


class EmbeddedPostgresAway(psycopg.OperationalError):
    """The embedded server can't be started. `message` is meant for callers, the text of the error for operators."""

    @property
    def message(self) -> str:
        if str(self) == DISK_FULL:
            return gettext("its disk is full; an operator has to free space")
        return gettext("its server can't be started; an operator finds the reason with the command doctor")


class DatabaseWrapper(base.DatabaseWrapper):
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        # Checking that the server runs takes only some 50 µs, so it is done before each connection. Any process can
        # therefore start the server, and processes may be started in any order.
        try:
            if get_server(settings.COMMONPLACE_HOME).ensure_running():
                breaker.note(None)  # the attempts that failed were before this start
        except EmbeddedPostgresError as error:
            log.error("the embedded PostgreSQL can't be started: %s", error)
            raise EmbeddedPostgresAway(str(error)) from error
        return super().get_new_connection(conn_params)
