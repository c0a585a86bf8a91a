"""A kind of analysis source: tables of SQLite files."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from django.conf import settings

from analysis.sources.declaration import Resource, Source
from analysis.sources.envelopes import PageOf, Row
from analysis.sources.interface import UpstreamFailed


class SqliteUpstream:
    """A table of an SQLite file below ANALYSIS_FILES. Pages follow rowid, so a cursor is the last rowid read."""

    at_once = 1  # read in this process, so requests in parallel would gain nothing

    def __init__(self, source: Source, resource: Resource, as_user: str) -> None:
        self.resource = resource
        root = Path(settings.ANALYSIS_FILES).resolve()
        name, _, self._table = resource.path.partition(":")
        self._path = (root / name).resolve()
        if not self._path.is_relative_to(root) or not self._path.is_file():
            raise UpstreamFailed(f"there is no file {name}")
        for identifier in (self._table, resource.id_field):  # both become part of a statement
            if not identifier.isidentifier():
                raise UpstreamFailed(f"{identifier!r} is not the name of a table or column")

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        if filters:
            raise UpstreamFailed("an SQLite source has no filters; filter with `where` after the ingest")
        sql = f"SELECT rowid AS _rowid, * FROM {self._table} WHERE rowid > ? ORDER BY rowid LIMIT ?"  # noqa: S608
        rows = self._rows(sql, int(cursor or 0), per_page + 1)
        page = rows[:per_page]
        return PageOf(page, cursor=str(page[-1]["_rowid"]) if len(rows) > per_page else "")

    def read(self, record_id: str) -> Row | None:
        sql = f"SELECT * FROM {self._table} WHERE {self.resource.id_field} = ?"  # noqa: S608 - both are identifiers
        rows = self._rows(sql, record_id)
        return rows[0] if rows else None

    def _rows(self, sql: str, *values: Any) -> list[Row]:
        try:
            with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as connection:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(sql, values)]
        except sqlite3.Error as error:
            raise UpstreamFailed(f"{self.resource.path} can't be read: {error}") from None

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf:
        raise UpstreamFailed("a table has no nested resources")

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int:
        raise UpstreamFailed("an SQLite source is read-only")

    def delete(self, record_id: str) -> int:
        raise UpstreamFailed("an SQLite source is read-only")

    def close(self) -> None:
        pass
