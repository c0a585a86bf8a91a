"""The words of a text that match a query, so that pages can mark them.

A word matches if PostgreSQL gives it a lexeme that recall searched for. So "refund" is marked for "refunds", and a
corrected typo is marked as well.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from foundation.database import prepared_statements
from memories.models.fields import SYMBOLS, text_search_config
from memories.retrieval.term_statistics import Term
from memories.texts.language import configuration_of

WORD = re.compile(rf"[^\W_]+|[{SYMBOLS}]")
MAX_WORDS = 5_000  # maximum number of distinct words of all texts that are looked up
LEXEMES = """
    SELECT config, word, tsvector_to_array(to_tsvector(config::regconfig, normalize(word, NFKC))) || word
    FROM unnest(%s::text[], %s::text[]) AS given(config, word)"""


@dataclass(frozen=True)
class Piece:
    text: str
    is_match: bool


def mark_words(texts: Sequence[tuple[str, str]], terms: Sequence[Term]) -> list[list[Piece]]:
    """Split each text, given with its language code, into pieces that match the terms and pieces that don't."""
    searched = {lexeme for term in terms for lexeme in (term.lexeme, *term.alternatives)}
    pairs = set[tuple[str, str]]()
    for text, language in texts:
        words = {match.casefold() for match in WORD.findall(text)}
        pairs.update(itertools.product({configuration_of(language), text_search_config()}, words))
    matching = _matching(sorted(pairs)[:MAX_WORDS], searched) if searched else set()
    return [_pieces(text, {configuration_of(language), text_search_config()}, matching) for text, language in texts]


def _matching(pairs: Sequence[tuple[str, str]], searched: set[str]) -> set[tuple[str, str]]:
    configs = [config for config, _ in pairs]
    words = [word for _, word in pairs]
    rows = prepared_statements.rows(LEXEMES, [configs, words])
    return {(config, word) for config, word, lexemes in rows if searched.intersection(lexemes)}


def _pieces(text: str, configs: set[str], matching: set[tuple[str, str]]) -> list[Piece]:
    pieces = []
    start = 0
    for match in WORD.finditer(text):
        if any((config, match.group().casefold()) in matching for config in configs):
            pieces += [Piece(text[start : match.start()], False), Piece(match.group(), True)]
            start = match.end()
    return [piece for piece in [*pieces, Piece(text[start:], False)] if piece.text]
