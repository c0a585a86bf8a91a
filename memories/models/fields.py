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


# Characters of scripts that put no space between words: kana, CJK ideographs, hangul.
UNSPACED = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
# ISO 639-1 code → PostgreSQL's configuration with its stemmer and stop words.
CONFIGURATIONS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


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
        return self.vector_sql(" || ' ' || ".join(columns)), tuple(params)

    def vector_sql(self, text: str) -> str:
        return search_vector_sql(text)


class LanguageSearchText(SearchText):
    """As SearchText, by the configuration of the row's own language where it has another than the installation's;
    the words as they stand beside, for a question in any language."""

    def vector_sql(self, text: str) -> str:
        cases = "".join(
            f" WHEN '{code}' THEN {search_vector_sql(text, name)} || {search_vector_sql(text, 'simple')}"
            for code, name in other_configurations().items()
        )
        installation = search_vector_sql(text)
        return f"CASE language{cases} ELSE {installation} END" if cases else installation


def search_vector_sql(text: str, configuration: str = "") -> str:
    """SQL for the vector of an SQL text expression without parameters; also used for queries, so that both split
    alike. Runs of scripts without spaces are split into pairs of characters."""
    spaced = f"regexp_replace({text}, '[{UNSPACED}]{{3,}}', ' ', 'g')"
    parts = rf"regexp_replace({spaced}, '([a-z0-9])([A-Z])|[^[:alnum:]]+', '\1 \2', 'g')"
    runs = f"regexp_replace({text}, '[^{UNSPACED}]+', ' ', 'g')"
    shifted = f"regexp_replace({runs}, '(^| )[^ ]', ' ', 'g')"
    pairs = " || ' ' || ".join(rf"regexp_replace({run}, '([^ ]{{2}})|[^ ]', '\1 ', 'g')" for run in (runs, shifted))
    name = configuration or text_search_config()
    return f"to_tsvector('{name}'::regconfig, {spaced} || ' ' || {parts} || ' ' || {pairs})"


def other_configurations() -> dict[str, str]:
    """Language → configuration, of the languages that this installation tells apart beside its own."""
    installation = text_search_config()
    languages = {code: CONFIGURATIONS[code] for code in settings.RECALL_LANGUAGES if code in CONFIGURATIONS}
    return {code: name for code, name in languages.items() if name != installation}


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
