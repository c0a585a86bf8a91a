"""Words that decide whether two sentences are about the same case, and the units that can be confused."""

from __future__ import annotations

from memories.texts.values import UNITS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Prepositions that limit a sentence to a part: "In Germany, returns are free".
SCOPING = _words(
    "in for during outside inside within except despite on at unless besides beyond among across under via with"
    " für bei während außerhalb innerhalb außer an auf unter mit"
    " en para durante excepto fuera bajo con"
)  # fmt: skip
SCOPING_WORDS = _words(
    "if when unless while except only sometimes usually mostly temporarily now currently formerly originally"
    " wenn falls außer nur manchmal meistens jetzt früher ursprünglich"
    " si cuando salvo excepto solo ahora antes originalmente"
)  # fmt: skip
RANGE = frozenset({"to", "bis", "a", "hasta"})  # prepositions between the two ends of a range
COMPARATORS = frozenset({"at_least", "at_most", "more_than", "less_than"})
# At the front of a sentence, these opposites name the thing that it is about: "Gross revenue …", "Old stores …".
KINDS_OF_THINGS = _words(
    "gross net new old internal external public private online offline wholesale retail incoming outgoing inbound"
    " outbound upstream downstream manual automatic large small big cheap expensive north south east west early late"
    " first last morning evening day night full incremental"
    " brutto netto neue alte interne externe öffentliche private große kleine eingehende ausgehende erste letzte"
    " manuelle automatische"
)  # fmt: skip
# Prepositions before the same time that say the opposite.
OPPOSITE_TIMES = ({"before", "after"}, {"since", "until"}, {"vor", "nach"}, {"seit", "bis"}, {"desde", "hasta"})
# Base units of one dimension that are not converted into one another.
AMOUNTS = (
    frozenset({"m", "mile"}),
    frozenset({"g", "lb"}),
    frozenset({"eur", "usd", "gbp", "chf"}),
    frozenset({"°c", "°f"}),
)
DIMENSIONS = {unit: f"dimension {n}" for n, units in enumerate(AMOUNTS) for unit in units}
# Units of columns that values.UNITS does not have: dimension → spellings, of which each group is one unit.
MORE_MEASURES = (
    ("eur", "cent cents cent(s) pence céntimo céntimos centavo centavos"),
    ("energy", "wh"), ("energy", "kwh"), ("energy", "mwh"), ("energy", "gwh"), ("energy", "j joule joules"),
    ("zone", "utc gmt"), ("zone", "cet cest mez mesz"), ("zone", "est edt"), ("zone", "pst pdt"),
    ("eur", "jpy yen"), ("eur", "cny yuan"), ("eur", "inr rupees"), ("eur", "sek"), ("eur", "nok"), ("eur", "dkk"),
    ("eur", "pln"), ("eur", "cad"), ("eur", "aud"), ("eur", "mxn"), ("eur", "brl"),
    ("byte", "bit bits"),
)  # fmt: skip
ALL_MEASURES: dict[str, tuple[str, str]] = {
    spelling: (DIMENSIONS.get(base, base), f"{base} {factor}") for spelling, (base, factor) in UNITS.items()
} | {
    spelling: (DIMENSIONS.get(dimension, dimension), spellings)
    for dimension, spellings in MORE_MEASURES
    for spelling in spellings.split()
}
# Spelling → dimension and unit. Two different units of one dimension can't both be the unit of a column. A single
# letter is left out, because it is more often the name of a thing.
MEASURES = {spelling: measure for spelling, measure in ALL_MEASURES.items() if len(spelling) > 1}


def measure_of(word: str) -> tuple[str, str]:
    """Return the dimension and the unit that a word names, or two empty texts if it is no unit."""
    return MEASURES.get(word.casefold(), ("", ""))
