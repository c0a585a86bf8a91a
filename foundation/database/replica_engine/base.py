"""The replica's connection and cursors.

Outside of a transaction, each statement stands for itself, so it can be repeated on the primary.
"""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, connections
from django.db.backends import utils

from foundation.database import replica
from foundation.database.engine import base


class _Repeats:
    """The part of a cursor that repeats a failed statement on the primary, and reads the rows from there."""

    cursor: Any
    db: Any

    def _execute(self, sql: Any, params: Any, *ignored: Any) -> Any:
        try:
            return super()._execute(sql, params, *ignored)  # type: ignore[misc]  # the method of Django's cursor
        except (DatabaseError, InterfaceError) as error:
            if not replica.may_repeat(self.db, error):
                raise
        primary = connections[DEFAULT_DB_ALIAS].cursor()
        self.cursor = primary.cursor
        self.db = primary.db
        return super()._execute(sql, params, *ignored)  # type: ignore[misc]  # the method of Django's cursor


class Cursor(_Repeats, utils.CursorWrapper):
    pass


class DebugCursor(_Repeats, utils.CursorDebugWrapper):
    pass


class DatabaseWrapper(base.DatabaseWrapper):
    # A replica that can't be reached says nothing about the primary, so the pool and the connections are Django's own.
    @property
    def pool(self) -> Any:
        return super(base.DatabaseWrapper, self).pool

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super(base.DatabaseWrapper, self).get_new_connection(conn_params)
        setattr(connection, base.ROLE, self.settings_dict.get("IDENTITY_ROLE", ""))
        return connection

    def _cursor(self, name: str | None = None) -> Any:
        try:
            return super()._cursor(name)  # type: ignore[misc]  # the stubs don't have it
        except (DatabaseError, InterfaceError) as error:
            if not replica.may_repeat(self, error):
                raise
        return connections[DEFAULT_DB_ALIAS].cursor()

    def make_cursor(self, cursor: Any) -> utils.CursorWrapper:
        return Cursor(cursor, self)

    def make_debug_cursor(self, cursor: Any) -> utils.CursorDebugWrapper:
        return DebugCursor(cursor, self)
