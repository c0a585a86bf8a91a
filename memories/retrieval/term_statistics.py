"""Terms of a query, their document frequencies, and the choice of terms that find candidates.

PostgreSQL's ts_rank does not use document frequencies, and counting them for a query takes 30 ms at 100,000 records. So
they are kept in the table memory_lexemes, which is derived and kept current by a task (term_changes.py). They decide
which terms find rows, and which words are taken for typos. The idf is computed from them if all terms of a query are
frequent and many rows are searched. Otherwise the idf is computed from the rows that the reader may see (ranking.py).

Nothing may reveal whether a word occurs in another user's private memory or in another persona. So memories are counted
by their readers: those for everyone, those shared with each persona, and the private ones of each owner. For a caller,
the counts of what the caller may read are added up. For code without a caller there is a rough count, which ignores
private memories, has only lexemes that at least MIN_OWNERS people use, and is rounded to powers of two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from django.db import connection, transaction

from foundation.database import prepared_statements, sql_files
from foundation.operations.normal_form import normal_form
from foundation.people.caller import Caller
from memories.models.fields import other_configurations, search_vector_sql, text_search_config
from memories.texts.language import configuration_of, language_of

SQL = sql_files.statements(__file__)
READABLE = SQL["readable"]
MIN_TYPO = 5  # minimum number of letters of a word in which typos are corrected
MAX_TYPOS = 4  # maximum number of words of a query in which typos are corrected
MAX_ALTERNATIVES = 5  # maximum number of corrections of a word
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzäöüßéèàçñ")
# Letters with accents by the letter that is typed without one, and letters by what is typed for them.
ACCENTED = {
    "a": "áàâãäåąă", "c": "çčć", "d": "ď", "e": "éèêëęě", "g": "ğ", "i": "íìîïı", "l": "ł", "n": "ñńň", "o": "óòôõöøő",
    "r": "ř", "s": "śšş", "t": "ť", "u": "úùûüůű", "y": "ý", "z": "źżž",
}  # fmt: skip
TYPED = {"ss": "ß", "oe": "œ", "ae": "æ"}
IDENTIFIER = re.compile(r"(?<![^\W_])[^\W_]++(?:[._][^\W_]++)+")
MAX_IDENTIFIERS = 5  # maximum number of identifiers of a query that are also searched as a whole
MAX_TERMS = 32  # maximum number of terms of a query; a longer query is cut to its rarest terms
CANDIDATE_ROWS = 1_000  # approximate maximum number of rows that the words of a query find where many rows are searched
MIN_OWNERS = 3  # minimum number of people who use a lexeme before its frequency is shared


@dataclass(frozen=True)
class Term:
    lexeme: str
    documents: int  # number of readable memories with the lexeme, plus the number of those with each alternative
    idf: float
    alternatives: tuple[str, ...] = ()  # lexemes of another stemming, or one edit away from an unknown lexeme
    phrase: str = ""  # tsquery that matches an identifier as a whole; empty for a term that is a single word

    @property
    def tsquery(self) -> str:
        if self.phrase:
            return f"({self.phrase})"
        quoted = " | ".join(_quoted(lexeme) for lexeme in (self.lexeme, *self.alternatives))
        return f"({quoted})" if self.alternatives else quoted


def _quoted(lexeme: str) -> str:
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def idf(documents: int, total: int) -> float:
    """Return the inverse document frequency of BM25, ln(1 + (N - n + ½) / (n + ½)) (Robertson & Zaragoza 2009)."""
    count = min(documents, total)
    return math.log(1 + (total - count + 0.5) / (count + 0.5))


def query_terms(query: str, caller: Caller | None = None) -> list[Term]:
    """Return the query's distinct terms, rarest first, at most MAX_TERMS.

    Frequencies are those among the memories that the caller may read, or rough ones without a caller. A lexeme that is
    missing from memory_lexemes has frequency 0.
    """
    reader = reader_values(caller)
    query = normal_form(query)
    names = list(dict.fromkeys(IDENTIFIER.findall(query)))[:MAX_IDENTIFIERS]
    statements: list[tuple[str, Any]] = [(_query_terms_sql(language_of(query)), {**reader, "query": query})]
    if names:
        statements.append((SQL["phrases"], [names, text_search_config()]))
    rows, *phrases = prepared_statements.rows_of_each(*statements)
    terms = [
        Term(lexeme, documents, idf(known, total or known), tuple(sorted(alternatives)))
        for lexeme, documents, known, total, alternatives in rows
    ]
    terms = sorted(terms, key=lambda term: (term.documents, term.lexeme))[:MAX_TERMS]
    if rows and rows[0][3] is not None:  # otherwise no memory has been counted, and every word is unknown
        terms = _with_corrected_typos(terms, reader)
    return sorted([*_identifiers(phrases[0] if phrases else [], terms), *terms], key=lambda term: term.documents)[
        :MAX_TERMS
    ]


def reader_values(caller: Caller | None) -> dict[str, Any]:
    """Return the parameters of the condition `readable`."""
    if caller is None:
        return {"rough": True, "all": True, "email": "", "personas": []}
    personas = sorted(caller.personas)
    return {"rough": False, "all": caller.is_admin, "email": caller.email, "personas": personas}


def _query_terms_sql(language: str) -> str:
    """Return SQL for the lexemes of a query by the rules of its language.

    If the installation has other rules, its lexemes and the unstemmed words are alternatives, because a memory may be
    in either language. Stop words of the query's language have no lexeme.
    """
    name = configuration_of(language)
    alternatives = "ARRAY[]::text[]"
    documents = "0"
    if name != text_search_config():
        simple = search_vector_sql("words", "simple")
        alternatives = SQL["same_place"].format(installation=search_vector_sql("words"), simple=simple)
        documents = SQL["of_alternatives"].format(readable=READABLE)
    vector = search_vector_sql("words", name)
    return SQL["query_terms"].format(vector=vector, likes=alternatives, documents=documents, readable=READABLE)


def _with_corrected_typos(terms: Sequence[Term], reader: Mapping[str, Any]) -> list[Term]:
    """Add known lexemes one edit away to unknown terms, because an unknown term may be misspelled.

    It may also be spelled without accents, or be a word of another language than the question was taken for, which is
    likely for a question of one or two words.

    At most MAX_TYPOS terms are corrected. Only words of memories that the reader may read are known. Otherwise a word
    that is corrected, and another that is not, would tell whether somebody's private memory contains them.
    """
    unknown = [term for term in terms if not term.documents and not term.alternatives and len(term.lexeme) >= MIN_TYPO]
    if not unknown:
        return list(terms)
    lexemes_unknown = [term.lexeme for term in unknown[:MAX_TYPOS]]
    stems = _stems_of_other_languages(lexemes_unknown)
    likely = {lexeme: other_spellings(lexeme) | stems.get(lexeme, set()) for lexeme in lexemes_unknown}
    edits = {lexeme: one_edit_away(lexeme) | likely[lexeme] for lexeme in lexemes_unknown}
    # One string, because psycopg takes long to send a list of some thousand. No lexeme of a text contains a space.
    lexemes = " ".join(sorted(set().union(*edits.values())))
    known = SQL["known_lexemes"].format(readable=READABLE)
    documents = dict(prepared_statements.rows(known, {**reader, "lexemes": lexemes}))
    alternatives = {
        # what it is likely to be comes before what is one edit away by chance
        lexeme: tuple(sorted(found, key=lambda word: (word not in likely[lexeme], word))[:MAX_ALTERNATIVES])
        for lexeme, found in ((lexeme, edits[lexeme] & documents.keys()) for lexeme in edits)
    }
    return [_with_alternatives(term, alternatives.get(term.lexeme, ()), documents) for term in terms]


def _with_alternatives(term: Term, alternatives: tuple[str, ...], documents: Mapping[str, int]) -> Term:
    if not alternatives:
        return term
    return replace(term, alternatives=alternatives, documents=sum(documents[lexeme] for lexeme in alternatives))


def one_edit_away(word: str) -> set[str]:
    """Return the words one deletion, insertion, substitution or transposition away (Damerau 1964).

    Only LETTERS and the letters of the word are inserted and substituted.
    """
    parts = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    letters = set(word) | LETTERS
    edits = {a + b[1:] for a, b in parts if b} | {a + b[1] + b[0] + b[2:] for a, b in parts if len(b) > 1}
    edits |= {a + c + b[1:] for a, b in parts if b for c in letters} | {a + c + b for a, b in parts for c in letters}
    return edits - {word}


def other_spellings(word: str) -> set[str]:
    """Return the word with one accent more, and with ligatures or ß instead of the letters that are typed for them."""
    found = set()
    for place, letter in enumerate(word):
        found |= {word[:place] + accented + word[place + 1 :] for accented in ACCENTED.get(letter, "")}
    found |= {word.replace(typed, written) for typed, written in TYPED.items()}
    return found - {word}


def _stems_of_other_languages(words: Sequence[str]) -> dict[str, set[str]]:
    """Return the lexemes of each word by the rules of RECALL_LANGUAGES but the installation's own."""
    names = other_configurations().values()
    if not names:
        return {}
    vector = " || ".join(search_vector_sql("word", name) for name in names)
    rows = prepared_statements.rows(SQL["word_lexemes"].format(vector=f"({vector})"), [list(words)], public=True)
    stems: dict[str, set[str]] = {}
    for word, lexeme in rows:
        stems.setdefault(word, set()).add(lexeme)
    return stems


def _identifiers(phrases: Sequence[tuple[str, str, list[str]]], terms: Sequence[Term]) -> list[Term]:
    """Return terms for whole identifiers like `sales.orders`, so that memories with the whole name rank higher.

    `phrases` are the rows of the statement `phrases`.
    """
    wholes = []
    for name, phrase, lexemes in phrases:
        if "<" in phrase:
            parts = [term for term in terms if term.lexeme in lexemes] or terms
            documents = min(
                (term.documents for term in parts), default=0
            )  # the whole occurs in no more rows than its rarest part
            rarest = max((term.idf for term in parts), default=1.0)
            wholes.append(Term(name, documents, rarest, phrase=phrase))
    return wholes


def idf_of_words(words: Sequence[str], idf_of: Mapping[str, float]) -> dict[str, float]:
    """Return the idf of each word of a query. Words without a lexeme in `idf_of` are missing."""
    name = configuration_of(language_of(" ".join(words)))
    statement = SQL["word_lexemes"].format(vector=search_vector_sql("word", name))
    rows = prepared_statements.rows(statement, [sorted(set(words))], public=True)
    return {word: idf_of[lexeme] for word, lexeme in rows if lexeme in idf_of}


def any_of(terms: Sequence[Term]) -> str:
    return " | ".join(term.tsquery for term in terms)


def every_lexeme(text: str) -> list[str]:
    """Return tsqueries that match the search columns of rows with all words of a text.

    The first is for rows in the installation's language. The second is for rows in other languages, which have the
    unstemmed words. A query is empty if no word of the text is searched for.
    """
    vectors = (search_vector_sql("words"), search_vector_sql("words", "simple"))
    arrays = ", ".join(f"tsvector_to_array({vector})" for vector in vectors)
    sql = f"SELECT {arrays} FROM (SELECT %s::text AS words) AS given"  # noqa: S608 - the vectors are constants
    ((*lexemes,),) = prepared_statements.rows(sql, [text])
    # The longest ones, because they are rare. Each lexeme costs time.
    chosen = [sorted(found, key=lambda lexeme: (-len(lexeme), lexeme))[:MAX_TERMS] for found in lexemes]
    return [" & ".join(_quoted(lexeme) for lexeme in found) for found in chosen]


@dataclass(frozen=True)
class TermSelection:
    """The condition that finds candidates among many rows.

    `tsquery` finds every row with any of the first `terms` terms of a question. If `terms` is 0, even the rarest term
    is too frequent for that, and `tsquery` finds the rows that contain several terms together. `rows` is about how many
    it finds.
    """

    tsquery: str
    terms: int
    rows: float


def selective(terms: Sequence[Term]) -> TermSelection:
    """Return a condition that finds about CANDIDATE_ROWS rows at most. `terms` are sorted by frequency, rarest first.

    The condition is an OR of as many of the rarest terms as the limit allows. If even the rarest term occurs in more
    rows, the condition is an AND of the rarest terms. Terms are added until the expected number of rows is within the
    limit, assuming that terms occur independently of each other.
    """
    total = max(2 * terms[-1].documents, 1)  # estimate of all documents: a term is rarely in more than half of them
    first = terms[0]
    if first.documents <= CANDIDATE_ROWS:
        rows = list(accumulate(term.documents for term in terms))
        fitting = max(sum(count <= CANDIDATE_ROWS for count in rows), 1)
        return TermSelection(any_of(terms[:fitting]), fitting, rows[fitting - 1])
    rarest = [first]
    expected = float(first.documents)
    for term in terms[1:]:
        if expected <= CANDIDATE_ROWS:
            break
        rarest.append(term)
        expected *= term.documents / total
    return TermSelection(" & ".join(term.tsquery for term in rarest), 0, expected)


def lock(cursor: Any) -> None:
    """Wait for other counts to end, and let none begin before the end of the transaction.

    The statement that counts comes after this one, so it sees what the others have written.
    """
    cursor.execute("SELECT pg_advisory_xact_lock(hashtext('memory_lexemes'))")


def refresh() -> int:
    """Recount all lexemes; return the new number of rows of memory_lexemes, which includes the rows of totals.

    Concurrent queries use the old counts until this transaction commits.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        lock(cursor)
        cursor.execute(SQL["refresh"], [MIN_OWNERS])
        cursor.execute("SELECT count(*) FROM memory_lexemes")
        return int(cursor.fetchone()[0])
