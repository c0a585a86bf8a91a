"""Syntax trees of SQL texts, with a limit on the work of the parser."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp

# sqlglot takes about one step per token. Nested names of types, such as DECIMAL(DECIMAL(…)), make it try each level
# twice, so that a text of 200 characters would keep the process busy for minutes.
STEPS_PER_TOKEN = 5
STEPS = 20_000


class TooComplex(ValueError):
    """The parser took more steps than a statement of this length needs."""


def parse(sql: str, dialect: str) -> list[exp.Expression | None]:
    """Return the syntax trees of the statements. Raises TooComplex, or what sqlglot raises."""
    from sqlglot.dialects.dialect import Dialect  # noqa: PLC0415 - only calls with SQL need it

    kind = Dialect.get_or_raise(dialect or None)
    tokens = kind.tokenize(sql)
    trees: list[exp.Expression | None] = _parser(type(kind))(dialect=kind).parse(tokens, sql)
    return trees


@cache
def _parser(dialect: Any) -> Any:
    """Return the dialect's parser as a class that counts its steps."""
    parser: Any = dialect.parser_class

    class LimitedParser(parser):  # type: ignore[misc]  # the class is known at run time only
        _steps = 0

        def _advance(self, times: int = 1) -> None:
            self._steps += 1
            if self._steps > STEPS + STEPS_PER_TOKEN * self._tokens_size:
                raise TooComplex("it is nested too deeply to be checked")
            super()._advance(times)

    return LimitedParser
