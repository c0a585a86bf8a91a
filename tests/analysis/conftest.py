"""An upstream REST API with books, and a warehouse with orders, declared as an admin would declare them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.utils import timezone

from analysis import records, sessions
from analysis.models import DeclaredSource, Session
from foundation.people.caller import Caller
from tests.fake_rest_api import Api, serving

DECLARATION = """
base_url = "{base}"
token_env = "SOURCE_BOOKS_TOKEN"
impersonation_header = "X-On-Behalf-Of"
rate_per_s = 5000
read_personas = ["sales", "supply"]
act_personas = ["sales"]
timeout_s = 60

[models.book]
endpoint = "books"
read_only = false
wrap = "book"
per_page_max = 1000
[models.book.attributes.status]
type = "enum"
values = ["completed", "reading", "unread"]
description = "How far it was read."
[models.book.attributes.rating]
type = "integer"
[models.book.attributes.title]
[models.book.attributes.secret]
writable = false
[models.book.associations.author]
model = "author"
[models.book.associations.reviews]
kind = "has_many"
model = "review"
[models.book.filters.status]
type = "enum"
values = ["completed", "reading", "unread"]
[models.book.filters.kind]
type = "enum"
values = ["novel", "poem"]
[models.book.filters.updated]
type = "date_range"
from_param = "updated_after"
to_param = "updated_before"

[models.shelf]
endpoint = "shelves"
"""


@pytest.fixture
def api(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setenv("SOURCE_BOOKS_TOKEN", "secret-token")
    api = Api()
    api.fill(120)
    with serving(api) as base:
        DeclaredSource.objects.create(name="books", declaration=DECLARATION.format(base=base))
        yield api


@pytest.fixture
def warehouse(db: None, settings: Any, tmp_path: Path) -> DeclaredSource:
    """A DuckDB file with a table of orders, declared for the persona sales."""
    settings.ANALYSIS_FILES = tmp_path
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as file:
        file.execute("CREATE SCHEMA sales")
        file.execute("CREATE TABLE sales.orders AS SELECT range AS id, range * 1.5 AS amount FROM range(500)")
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    declaration = 'kind = "sql"\nengine = "duckdb"\ndatabase = "shop.duckdb"\nread_personas = ["sales"]\n'
    return DeclaredSource.objects.create(name="shop", declaration=declaration)


Hold = Callable[..., Session]


@pytest.fixture
def hold(alice: Caller) -> Hold:
    """Store rows in a session of Alice without using an upstream."""

    def put(rows: Sequence[dict[str, Any]], analysis_id: str = "audit", model: str = "book") -> Session:
        session = sessions.begin(alice, analysis_id)
        now = timezone.now()
        records.store(session, model, [records.clean(row) for row in rows], "id", now, now + sessions.record_ttl())
        return session

    return put
