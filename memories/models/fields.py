"""Columns whose exact type depends on settings and is not part of the migrations' state.

Each installation chooses the dimensions of vectors and the text-search configuration. Migrations create the columns by
the settings in force when they run. `manage.py embed --dimension` and `manage.py rebuild_search` change the columns
later. Neither makes `makemigrations --check` report changes.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.postgres.search import SearchVector, SearchVectorField
from django.db import models
from django.db.models import Func
from pgvector.django import VectorField


class EmbeddingField(VectorField):
    """A `vector(EMBEDDING_DIMENSIONS)` column for vectors of unit length, which are compared by cosine."""

    def db_type(self, connection: Any) -> str:
        return f"vector({int(settings.EMBEDDING_DIMENSIONS)})"


# Characters that are searched by pairs, because spaces don't separate all words: kana, CJK ideographs, hangul.
UNSPACED = "\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
# Characters that are words of their own: currencies, arrows, mathematical operators, shapes, dingbats and emoji.
SYMBOLS = (
    "\u00a2-\u00a5\u00a7\u00b1\u00d7\u00f7\u20a0-\u20cf\u2190-\u23ff\u2500-\u27bf\u2900-\u29ff\u2b00-\u2bff"
    "\U0001f000-\U0001faff"
)
# ISO 639-1 code → text-search configuration of PostgreSQL, with stemmer and stop words.
CONFIGURATIONS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "et": "estonian", "eu": "basque", "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian",
    "hy": "armenian", "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch",
    "no": "norwegian", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


class SearchText(Func):
    """The text-search vector of text columns, with their words and the parts of identifiers.

    A search for `orders` finds `sales_2024.orders`, and a search for `total` finds `orderTotal`. All SQL functions in
    the expression are immutable, as a generated column requires.
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
    """A SearchText with the text-search configuration of the row's own language, if that is one of RECALL_LANGUAGES.

    Any other row gets the installation's configuration. A row with a configuration other than the installation's also
    gets its unstemmed words, so that questions in any language can find them.
    """

    def vector_sql(self, text: str) -> str:
        cases = "".join(
            f" WHEN '{code}' THEN {search_vector_sql(text, name)} || {search_vector_sql(text, 'simple')}"
            for code, name in other_configurations().items()
        )
        installation = search_vector_sql(text)
        return f"CASE language{cases} ELSE {installation} END" if cases else installation


def search_vector_sql(text: str, configuration: str = "") -> str:
    """Return SQL for the text-search vector of an SQL text expression. The expression must not have parameters.

    Runs of UNSPACED characters are split into overlapping pairs. Queries use the same SQL, and so they are split in the
    same way. Each of SYMBOLS is a lexeme, which PostgreSQL's parser would leave out.
    """
    text = f"normalize({text}, NFKC)"  # as normal_form() in Python
    spaced = f"regexp_replace({text}, '[{UNSPACED}]{{3,}}', ' ', 'g')"
    parts = rf"regexp_replace({spaced}, '([a-z0-9])([A-Z])|[^[:alnum:]]+', '\1 \2', 'g')"
    runs = f"regexp_replace({text}, '[^{UNSPACED}]+', ' ', 'g')"
    shifted = f"regexp_replace({runs}, '(^| )[^ ]', ' ', 'g')"  # for the pairs that begin at the second character
    pairs = " || ' ' || ".join(rf"regexp_replace({run}, '([^ ]{{2}})|[^ ]', '\1 ', 'g')" for run in (runs, shifted))
    name = configuration or text_search_config()
    words = f"to_tsvector('{name}'::regconfig, {spaced} || ' ' || {parts} || ' ' || {pairs})"
    symbols = f"array_remove(regexp_split_to_array({text}, '[^{SYMBOLS}]*'), '')"
    return f"({words} || array_to_tsvector({symbols}))"


def other_configurations() -> dict[str, str]:
    """Return the text-search configurations of RECALL_LANGUAGES, by language, without the installation's own."""
    installation = text_search_config()
    languages = {code: CONFIGURATIONS[code] for code in settings.RECALL_LANGUAGES if code in CONFIGURATIONS}
    return {code: name for code, name in languages.items() if name != installation}


def text_search_config() -> str:
    name = str(settings.TEXT_SEARCH_CONFIG)
    if not name.replace("_", "").isalnum():  # it becomes part of SQL, because DDL takes no parameters
        raise ValueError(f"TEXT_SEARCH_CONFIG={name!r} is not a configuration's name")
    return name


def exact_words(*columns: str) -> SearchVector:
    """Return the text-search vector of columns with their very words, without stems and stop words."""
    return SearchVector(*columns, config="simple")


@models.TextField.register_lookup
class NormalForm(models.Transform):
    """A text in the form in which texts are compared: `content__normal_form__icontains=normal_form(word)`."""

    lookup_name = "normal_form"
    template = "normalize(%(expressions)s, NFKC)"


class ContentKey(Func):
    """A hash that is equal for texts that differ only in case and in the white space between words."""

    template = r"md5(lower(regexp_replace(btrim(%(expressions)s), '\s+', ' ', 'g')))"
    output_field = models.CharField(max_length=32)
