"""Tokens of a statement, read in the same way by DuckDB, PostgreSQL and Trino.

A text that one of them could read differently is rejected, so that no code hides in what looks like a string or
comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from foundation.operations.errors import Invalid

MAX_DEPTH = 100  # of nested parentheses
TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n\f\v]+)
    | (?P<comment>--[^\r\n]*)
    | (?P<block>/\*)
    | (?P<escaped>[eE]'[^'\\]*(?:(?:''|\\.)[^'\\]*)*')
    | (?P<string>'[^']*(?:''[^']*)*')
    | (?P<quoted>"[^"]*(?:""[^"]*)*")
    | (?P<word>[^\W\d]\w*)
    | (?P<number>\d\w*)
    | (?P<unicode>[uU]&(?="))
    | (?P<sign>[-+*/%^~|&!@\#<>=.,:;()\[\]{}?])
    """,
    re.VERBOSE | re.DOTALL,
)
BLOCK_MARK = re.compile(r"/\*|\*/")
REFUSED = {
    "$": ("contains $ outside of a text or a quoted name", "texts in single quotes, names with $ in double quotes"),
    "`": ("contains a backtick", "names in double quotes"),
    "'": ("has a text that doesn't end", "texts in single quotes, with '' for a quote"),
    '"': ("has a quoted name that doesn't end", 'names in double quotes, with "" for a quote'),
}


@dataclass(frozen=True, slots=True)
class SqlToken:
    kind: str  # word, quoted, string, number or sign
    text: str  # a quoted name without its quotes; the value of a plain string
    start: int

    @property
    def name(self) -> str:
        """The name as engines compare it, or "" if this is no name."""
        return self.text.casefold() if self.kind in ("word", "quoted") else ""

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.name in words


def tokens_of(sql: str, dialect: str) -> list[SqlToken]:
    """Return the tokens without comments. Raises Invalid if engines could read the text differently."""
    tokens: list[SqlToken] = []
    position = depth = 0
    while position < len(sql):
        match = TOKEN.match(sql, position)
        if match is None:
            raise _refused(sql, position)
        kind = str(match.lastgroup)
        end = _end_of_block(sql, match.end()) if kind == "block" else match.end()
        if kind == "unicode" or (kind == "word" and match[0] in "uU" and sql[end : end + 2] == '&"'):
            raise _problem('contains a name with Unicode escapes (U&"…")', "the name itself", position)
        if kind == "escaped" and dialect == "trino":
            raise _problem("contains a text with backslash escapes (E'…')", "texts in single quotes", position)
        if kind not in ("space", "comment", "block"):
            depth += (match[0] in "([{") - (match[0] in ")]}") if kind == "sign" else 0
            if depth > MAX_DEPTH:
                raise _problem("is nested too deeply", f"at most {MAX_DEPTH} levels of parentheses", position)
            tokens.append(_token(kind, match[0], position))
        position = end
    return tokens


def _token(kind: str, text: str, start: int) -> SqlToken:
    if kind == "quoted":
        return SqlToken(kind, text[1:-1].replace('""', '"'), start)
    if kind in ("string", "escaped"):
        return SqlToken("string", text[text.index("'") + 1 : -1].replace("''", "'"), start)
    return SqlToken(kind, text, start)


def _end_of_block(sql: str, position: int) -> int:
    mark = BLOCK_MARK.search(sql, position)
    if mark is None:
        raise _problem("has a comment that doesn't end", "comments from /* to */", position)
    if mark[0] == "/*":  # some engines nest comments, others don't
        raise _problem("has a comment inside a comment", "comments that are not nested", mark.start())
    return mark.end()


def _refused(sql: str, position: int) -> Invalid:
    sign = sql[position]
    fallback = (f"contains {sign!r} outside of a text or a quoted name", "ordinary spaces and signs")
    return _problem(*REFUSED.get(sign, fallback), position)


def _problem(problem: str, allowed: str, position: int) -> Invalid:
    return Invalid(f"{problem}, at character {position + 1}", field="sql", allowed=allowed)
