"""Columns whose exact type is a setting, kept out of the migrations' state.

The vector's dimension and the text-search configuration belong to an installation. Migrations create the
columns as the settings say at that time; `manage.py embed --dimension` and `manage.py rebuild_search` change
them later, and `makemigrations --check` stays clean either way.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Func
from pgvector.django import VectorField


class EmbeddingField(VectorField):
    """A `vector(EMBEDDING_DIMENSIONS)` column, cosine space, unit length."""

    def db_type(self, connection: Any) -> str:
        return f"vector({int(settings.EMBEDDING_DIMENSIONS)})"


class SearchText(Func):
    """The text-search vector of some text columns: the words, and the parts that identifiers are made of.

    `sales_2024.orders` is found by `orders`, and `orderTotal` by `total`. Every function here is immutable,
    as a generated column demands.
    """

    output_field = SearchVectorField()

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **extra: Any) -> tuple[str, tuple[Any, ...]]:
        columns: list[str] = []
        params: list[Any] = []
        for expression in self.get_source_expressions():
            sql, values = compiler.compile(expression)
            columns.append(f"coalesce({sql}, '')")
            params.extend(values)
        text = " || ' ' || ".join(columns)
        return search_vector_sql(text), (*params, *params)


def search_vector_sql(text: str) -> str:
    """SQL for the vector of an SQL text expression; also used for queries, so that both split alike."""
    parts = rf"regexp_replace({text}, '([a-z0-9])([A-Z])|[^[:alnum:]]+', '\1 \2', 'g')"
    return f"to_tsvector('{text_search_config()}'::regconfig, ({text}) || ' ' || {parts})"


def text_search_config() -> str:
    """The configured name; checked here because DDL can't take it as a parameter."""
    name = str(settings.TEXT_SEARCH_CONFIG)
    if not name.replace("_", "").isalnum():
        raise ValueError(f"TEXT_SEARCH_CONFIG={name!r} is not a configuration's name")
    return name


class ContentKey(Func):
    """A short key of a text, equal for texts that differ only in case and white space."""

    template = r"md5(lower(regexp_replace(btrim(%(expressions)s), '\s+', ' ', 'g')))"
    output_field = models.CharField(max_length=32)
