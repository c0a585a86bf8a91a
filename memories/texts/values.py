"""Numbers with their units, and expressions of time, in one spelling each, so that they can be compared.

Times are replaced in the text by placeholders, because they consist of several words. A placeholder is a character of
Unicode's private use area, which texts must not contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from babel.dates import get_day_names, get_month_names

FIRST_PLACEHOLDER, LAST_PLACEHOLDER = 0xE000, 0xF8FF
PRIVATE_USE = re.compile("[\ue000-\uf8ff]")
LOCALES = ("en", "de", "es", "fr")
MAX_DIGITS = 24  # maximum length of a number; a longer one is an identifier, which Decimal would round

NUMBER_WORDS = {
    word: number
    for number, words in enumerate(
        (
            "zero null", "one eins", "two zwei", "three drei", "four vier", "five fünf", "six sechs", "seven sieben",
            "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf", "thirteen dreizehn",
            "fourteen vierzehn", "fifteen fünfzehn", "sixteen sechzehn", "seventeen siebzehn", "eighteen achtzehn",
            "nineteen neunzehn", "twenty zwanzig",
        )
    )
    for word in words.split()
} | {
    word: 10 * tens
    for tens, words in enumerate(
        ("thirty dreißig dreissig", "forty vierzig", "fifty fünfzig", "sixty sechzig", "seventy siebzig",
         "eighty achtzig", "ninety neunzig"), start=3
    )
    for word in words.split()
}  # fmt: skip
MULTIPLIERS = {
    "hundred": 100, "hundert": 100, "thousand": 1_000, "tausend": 1_000, "tsd": 1_000, "k": 1_000, "dozen": 12,
    "dutzend": 12, "million": 10**6, "millions": 10**6, "mio": 10**6, "mn": 10**6, "millionen": 10**6,
    "billion": 10**9, "billions": 10**9, "bn": 10**9, "mrd": 10**9, "milliarde": 10**9, "milliarden": 10**9,
}  # fmt: skip
ORDINALS = {
    word: number
    for number, words in enumerate(
        ("first erste ersten erster erstes", "second zweite zweiten zweiter zweites", "third dritte dritten dritter",
         "fourth vierte vierten vierter", "fifth fünfte fünften fünfter", "sixth sechste sechsten",
         "seventh siebte siebten", "eighth achte achten", "ninth neunte neunten", "tenth zehnte zehnten"), start=1
    )
    for word in words.split()
}  # fmt: skip
# Unit → (base unit, factor). A month has no number of days, so months and days are not converted into one another.
UNITS: dict[str, tuple[str, Decimal]] = {
    spelling: (base, Decimal(factor))
    for base, factor, spellings in (
        ("s", "0.001", "ms millisecond milliseconds millisekunde millisekunden"),
        ("s", "1", "s sec secs second seconds sekunde sekunden segundo segundos"),
        ("s", "60", "min mins minute minutes minuten minuto minutos"),
        ("s", "3600", "h hr hrs hour hours std stunde stunden hora horas"),
        ("s", "86400", "day days tag tage tagen día días"),
        ("s", "604800", "week weeks woche wochen semana semanas"),
        ("month", "1", "month months monat monate monaten mes meses"),
        ("month", "3", "quarter quarters quartal quartale quartalen trimestre trimestres"),
        ("month", "12", "year years yr yrs jahr jahre jahren año años"),
        ("m", "0.001", "mm millimeter millimeters millimetre millimetres millimetern"),
        ("m", "0.01", "cm centimeter centimeters centimetre centimetres zentimeter zentimetern"),
        ("m", "1", "m meter meters metre metres metern metro metros"),
        ("m", "1000", "km kilometer kilometers kilometre kilometres kilometern kilómetro kilómetros"),
        ("mile", "1", "mi mile miles meile meilen milla millas"),
        ("g", "0.001", "mg milligram milligrams milligramm"),
        ("g", "1", "g gram grams gramm gramo gramos"),
        ("g", "1000", "kg kilo kilos kilogram kilograms kilogramm kilogramo kilogramos"),
        ("g", "1000000", "t ton tons tonne tonnes tonnen"),
        ("lb", "1", "lb lbs pound pounds"),
        ("l", "0.001", "ml milliliter milliliters millilitre millilitres"),
        ("l", "1", "l liter liters litre litres litern litro litros"),
        ("byte", "1", "byte bytes"),
        ("byte", "1000", "kb kilobyte kilobytes"),
        ("byte", "1000000", "mb megabyte megabytes"),
        ("byte", "1000000000", "gb gigabyte gigabytes"),
        ("byte", "1000000000000", "tb terabyte terabytes"),
        ("%", "1", "% percent prozent pct"),
        ("eur", "1", "€ eur euro euros"),
        ("usd", "1", "$ usd dollar dollars dólar dólares"),
        ("gbp", "1", "£ gbp"),
        ("chf", "1", "chf franken francs"),
        ("°c", "1", "°c celsius"),
        ("°f", "1", "°f fahrenheit"),
    )
    for spelling in spellings.split()
}


def unit_of(spelling: str) -> str:
    """Return a unit's key in UNITS, or "" if it is none. "Mb" are bits, which are not converted into bytes."""
    if re.fullmatch("[KMGT]b", spelling):
        return ""
    return spelling.casefold() if spelling.casefold() in UNITS else ""


def read_number(text: str, language: str) -> Decimal | None:
    """Return the value of digits with separators, or of a number word, or None if it is neither."""
    plain = re.sub(r"[\s' ]", "", text).replace("−", "-")
    if len(plain) > MAX_DIGITS:
        return None
    if re.fullmatch(r"-?\d+(?:[.,]\d+)*", plain):
        separator, decimal = (".", ",") if language in ("de", "es", "fr") else (",", ".")
        if re.fullmatch(rf"-?\d{{1,3}}(?:{re.escape(separator)}\d{{3}})+(?:{re.escape(decimal)}\d+)?", plain):
            plain = plain.replace(separator, "")
        whole, _, rest = plain.replace(",", ".").rpartition(".")
        return Decimal(f"{whole.replace('.', '')}.{rest}" if whole else rest)
    word = text.casefold()
    if word in NUMBER_WORDS:
        return Decimal(NUMBER_WORDS[word])
    ones, joint, tens = word.partition("und")  # German: fünfundzwanzig
    if not joint:
        tens, joint, ones = word.partition("-")  # English: twenty-five
    ones = "eins" if ones == "ein" else ones
    if joint and NUMBER_WORDS.get(ones, 10) < 10 and NUMBER_WORDS.get(tens, 0) >= 20:
        return Decimal(NUMBER_WORDS[tens] + NUMBER_WORDS[ones])
    return None


@dataclass(frozen=True)
class Time:
    key: str  # for example "date 2024-03-03", "clock 08:00", "weekday 0", "each month"
    text: str


def lift_times(text: str, language: str) -> tuple[str, list[Time]]:
    """Replace the expressions of time in a text by placeholders, and return them in order of their placeholders."""
    times: list[Time] = []

    def replaced(key: Callable[[re.Match[str]], str]) -> Callable[[re.Match[str]], str]:
        def lift(match: re.Match[str]) -> str:
            found = key(match)
            if not found or len(times) > LAST_PLACEHOLDER - FIRST_PLACEHOLDER:
                return match.group()
            times.append(Time(found, match.group().strip(" .,")))
            return f" {chr(FIRST_PLACEHOLDER + len(times) - 1)} "

        return lift

    for pattern, key in _time_patterns(language if language in LOCALES else "en"):
        text = pattern.sub(replaced(key), text)
    return text, times


@cache
def _names(locale: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of months and weekdays by name, in lower case."""
    months = {name.casefold(): number for number, name in get_month_names("wide", locale=locale).items()}
    months |= {
        name.casefold().rstrip("."): number
        for number, name in get_month_names("abbreviated", locale=locale).items()
        if len(name.rstrip(".")) >= 3
    }
    days = {name.casefold(): number for number, name in get_day_names("wide", locale=locale).items()}
    if locale == "en":
        days |= {name[:3]: number for name, number in days.items() if name[:3] in ("mon", "tue", "wed", "thu", "fri")}
    if locale == "de":
        days |= {f"{name}s": number for name, number in days.items()} | {"sonnabend": 5}
    return months, days


PERIODS = {
    "day": "day tag tage", "week": "week woche", "month": "month monat", "quarter": "quarter quartal",
    "year": "year jahr", "hour": "hour stunde", "weekend": "weekend wochenende",
    "morning": "morning", "night": "night nacht", "evening": "evening",
}  # fmt: skip
PERIOD_OF = {spelling: period for period, spellings in PERIODS.items() for spelling in spellings.split()}
ADVERBS = {
    "daily": "each day", "weekly": "each week", "monthly": "each month", "quarterly": "each quarter",
    "yearly": "each year", "annually": "each year", "annual": "each year", "hourly": "each hour",
    "täglich": "each day", "wöchentlich": "each week", "monatlich": "each month", "vierteljährlich": "each quarter",
    "quartalsweise": "each quarter", "jährlich": "each year", "stündlich": "each hour",
    "yesterday": "day -1", "today": "day 0", "tomorrow": "day 1", "gestern": "day -1", "heute": "day 0",
    "übermorgen": "day 2", "vorgestern": "day -2", "noon": "clock 12:00", "midnight": "clock 00:00",
    "mitternacht": "clock 00:00",
}  # fmt: skip
RELATIVE = {
    "last": -1, "previous": -1, "letzt": -1, "vorig": -1, "vergangen": -1, "this": 0, "current": 0, "dies": 0,
    "aktuell": 0, "laufend": 0, "next": 1, "coming": 1, "upcoming": 1, "nächst": 1, "kommend": 1,
}  # fmt: skip


NOTHING: tuple[re.Pattern[str], Callable[[re.Match[str]], str]] = (re.compile(r"(?!)"), lambda match: "")


@cache
def _time_patterns(locale: str) -> list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]:
    months, days = _names(locale)
    # Months are written with a capital: in lower case, "may" and "march" are verbs. After some words they are months.
    names = "|".join(sorted(map(re.escape, months), key=len, reverse=True))
    capital = "|".join(sorted((re.escape(name.capitalize()) for name in months), key=len, reverse=True))
    after = r"(?<=\bin )|(?<=\bof )|(?<=\bfor )|(?<=\bsince )|(?<=\buntil )|(?<=\bbefore )|(?<=\bafter )|(?<=\bim )"
    month = rf"(?P<month>(?:(?:{capital})(?! (?:I|we|they|you)\b)|(?:{after})(?:{names}))\.?(?!\w))"
    year = r"(?P<year>(?:19|20)\d\d)"
    day = r"(?P<day>\d{1,2})"
    ordinal = (
        r"(?P<nth>first|second|third|fourth|[1-4](?:st|nd|rd|th|\.)|erste[nsr]?|zweite[nsr]?|dritte[nsr]?|vierte[nsr]?)"
    )
    periods = "|".join(sorted(PERIOD_OF, key=len, reverse=True))
    named_day = "|".join(sorted(map(re.escape, days), key=len, reverse=True))
    relatives = "|".join(RELATIVE)
    hours = "|".join(word for word, number in NUMBER_WORDS.items() if number <= 24)

    def date(match: re.Match[str]) -> str:
        parts = match.groupdict()
        number = months.get((parts.get("month") or "").casefold().rstrip("."), 0) or int(parts.get("mm") or 0)
        if parts.get("day") and not 0 < int(parts["day"]) < 32:
            return ""
        return f"date {parts.get('year') or '*'}-{number or '*'}-{int(parts.get('day') or 0) or '*'}"

    def quarter(match: re.Match[str]) -> str:
        parts = match.groupdict()
        nth = parts["nth"].casefold()
        number = ORDINALS.get(nth) or int(nth[0])
        return f"date {parts.get('year') or '*'}-q{number}-*"

    def clock(match: re.Match[str]) -> str:
        hour = int(match["hour"])
        minute = int(match.groupdict().get("minute") or 0)
        half = re.sub(r"[^apmo]", "", (match.groupdict().get("half") or "").casefold())
        if hour > 24 or minute > 59:
            return ""
        if half.startswith("p"):
            hour = hour % 12 + 12
        elif half.startswith("a"):
            hour %= 12
        hour %= 24
        return f"clock {hour:02}:{minute:02}"

    def relative(match: re.Match[str]) -> str:
        word = match["which"].casefold()
        shift = next(value for stem, value in RELATIVE.items() if word.startswith(stem))
        unit = match["unit"].casefold()
        unit = PERIOD_OF[unit] if unit in PERIOD_OF else f"weekday{days[unit.removesuffix('s')]}"
        return f"{unit} {shift}"

    def every(match: re.Match[str]) -> str:
        unit = match["unit"].casefold()
        return f"each {PERIOD_OF[unit]}" if unit in PERIOD_OF else f"weekday {days[unit]}"

    def spoken_clock(match: re.Match[str]) -> str:
        return f"clock {NUMBER_WORDS[match['word'].casefold()]:02}:00"

    def tomorrow(match: re.Match[str]) -> str:
        return "day 1"

    def adverb(match: re.Match[str]) -> str:
        return ADVERBS[match["adverb"].casefold()]

    def weekday(match: re.Match[str]) -> str:
        return f"weekday {days[match['name'].casefold()]}"

    flags = re.IGNORECASE
    minute = r"(?::(?P<minute>\d\d))"
    return [
        (re.compile(rf"(?<![\w-]){year}-(?P<mm>\d\d)(?:-(?P<day>\d\d))?(?![\w-])"), date),
        (re.compile(rf"(?<![\w.]){day}\.(?P<mm>\d{{1,2}})\.(?:{year})?(?!\d)"), date),
        (re.compile(rf"\b{day}(?:st|nd|rd|th|\.)? (?:of )?{month}(?:,? {year}\b)?"), date),
        (re.compile(rf"\b{month} {day}(?:st|nd|rd|th)?(?![\d:])(?:,? {year}\b)?"), date),
        (re.compile(rf"\b{month},? (?:of )?{year}\b"), date),
        (re.compile(rf"\bQ(?P<nth>[1-4])(?:[ /-]?{year})?\b", flags), quarter),
        (re.compile(rf"\b{year}[ /-]?Q(?P<nth>[1-4])\b", flags), quarter),
        (re.compile(rf"\b{ordinal} (?:quarter|Quartal)(?:(?: of| von| des Jahres)? {year})?\b", flags), quarter),
        (re.compile(rf"\b(?P<hour>\d{{1,2}}){minute}?\s?(?P<half>[ap]\.?m\b\.?)", flags), clock),
        (re.compile(rf"\b(?P<hour>\d{{1,2}}){minute}(?: Uhr)?\b", flags), clock),
        (re.compile(r"\b(?P<hour>\d{1,2}) (?:Uhr|o'clock)\b", flags), clock),
        (re.compile(rf"(?<!halb )(?<!past )\b(?P<word>{hours}) (?:Uhr|o'clock)\b", flags), spoken_clock),
        (re.compile(r"(?<!heute )(?<!gestern )(?<!jeden )\bmorgen\b"), tomorrow) if locale == "de" else NOTHING,
        (re.compile(rf"\b(?:(?:the )?(?:calendar )?year |dem Jahre? |Jahre? )?{year}(?![\w-]|[.,]\d)"), date),
        (re.compile(rf"\b(?:every|each|per|jede[nrsm]?|pro) (?P<unit>{periods}|{named_day})\b", flags), every),
        (re.compile(rf"\b(?P<which>(?:{relatives})(?:e[nrsm]?)?) (?P<unit>{periods}|{named_day})\b", flags), relative),
        (re.compile(rf"\b(?P<adverb>{'|'.join(ADVERBS)})(?:e[nrsm]?)?\b", flags), adverb),
        (re.compile(rf"\b{month}"), date),
        (re.compile(rf"\b(?P<name>{named_day})s?\b", flags), weekday),
    ]
