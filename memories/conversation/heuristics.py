"""Rules that estimate the importance, summary, tags and type of a text without a language model.

importance: 0.4 plus the following, limited to the range from 0.05 to 0.95:
    +.20 if the text has a word like remember, always or must      +.15 if it mentions a preference, decision or plan
    +.10 if it has a digit or an identifier                        +.05 if it has a capitalized name inside a sentence
    −.15 if it ends with a question mark                           −.10 if it is shorter than SHORT characters
    −.20 if it is shorter than SHORT characters and begins with a greeting, thanks, yes or no
summary: the first sentence that is neither a greeting nor a question, otherwise the first sentence. It is cut after
    SUMMARY_WORDS words.
tags: identifiers and capitalized names, then the longest words; at most MAX_TAGS. A word that tells the importance or
    the type says nothing about the subject, so it is no tag; neither is the name of a month or a day.
memory_type: the first of preference, relationship, event and entity for which the text has a typical phrase, otherwise
    knowledge.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

from memories.models import Dimension

SUMMARY_WORDS = 100
MAX_TAGS = 5
TAG_LETTERS = 5  # a word with more letters may become a tag
SENTENCES = re.compile(r"(?<=[.!?。！？])\s+|\n+|(?<=[。！？])")
SHORT = 40  # number of characters; a text with fewer is less important

URGENT = (
    r"remember|don't forget|important|always|never|must|merk|wichtig|immer|niemals|recuerda|importante|siempre|nunca"
)
OWN = (
    r"prefer\w*|favou?rite|love|like|hate|enjoy|want|decided?|plan(ning|ned)?|going to|agreed|chose|choose"
    r"|bevorzuge|mag|liebe|hasse|möchte|entschieden|plane|prefiero|gusta|odio|quiero|decidido|j'aime|préfère|veux"
)
PREFERENCE = (
    r"prefer\w*|favou?rite|i (really )?(love|like|hate|enjoy)|i('d| would) rather|bevorzuge|lieblings\w*|ich mag"
    r"|prefiero|favorit[oa]|me gusta|préfère|j'aime"
)
RELATIONSHIP = (
    r"(my|our|her|his) (wife|husband|partner|mother|father|mom|dad|sister|brother|son|daughter|kids?|children|friend"
    r"|boss|manager|colleague|team|dog|cat)|depends on|works (with|for)|reports to|belongs to|derived from|married"
    r"|(meine?|unsere?) (frau|mann|mutter|vater|chefin?|kollegin?)|mi (esposa|marido|madre|padre|jefe)"
)
EVENT = (
    r"yesterday|today|tonight|tomorrow|ago|last (night|week|month|year|summer|winter)|next (week|month|year)|went"
    r"|happened|met|moved|migrated|started|finished|visited|bought|gestern|heute|morgen|ayer|hoy|mañana|hier"
    r"|(mon|tues|wednes|thurs|fri|satur|sun)day|\d{4}-\d\d-\d\d"
)
ENTITY = (
    r"is (a|an|the) \w+|are \w+ (tables?|columns?|teams?)|called|named|stands for|means|heißt|bedeutet|se llama"
    r"|significa"
)
GREETING = re.compile(
    r"^\W*(hi|hey|hello|thanks?|thank you|thx|ok(ay)?|yes|yeah|no|sure|great|cool|wow|nice|bye|good (morning|night)|"
    r"hallo|danke|ja|nein|hola|gracias|sí|bonjour|merci|oui|non)\b",
    re.I,
)
# Not the phrases of ENTITY, which contain the name of the subject.
CUE = re.compile(rf"(?:{URGENT}|{OWN}|{PREFERENCE}|{EVENT}|updated?|changed?|please|because)", re.I)
TIMES = {name.lower() for name in (*calendar.month_name, *calendar.day_name) if name}
IDENTIFIER = re.compile(r"\b\w+(?:[._]\w+)+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z]{2,}\d*\b")
NAME = re.compile(r"(?<=[\w,;:] )[A-Z]\w{2,}(?: [A-Z]\w{2,})*")
WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class TurnReading:
    importance: float  # 0 to 1
    summary: str
    tags: list[str]
    dimension: str


def read(text: str) -> TurnReading:
    return TurnReading(importance_of(text), summary_of(text), tags_of(text), dimension_of(text))


def importance_of(text: str) -> float:
    value = 0.4
    value += 0.20 * has(URGENT, text) + 0.15 * has(OWN, text)
    value += 0.10 * bool(IDENTIFIER.search(text) or re.search(r"\d", text)) + 0.05 * bool(NAME.search(text))
    value -= 0.15 * text.rstrip().endswith(("?", "？")) + 0.10 * (len(text) < SHORT)
    value -= 0.20 * (bool(GREETING.match(text)) and len(text) < SHORT)
    return round(min(max(value, 0.05), 0.95), 3)


def summary_of(text: str) -> str:
    sentences = [sentence.strip() for sentence in SENTENCES.split(text) if sentence.strip()]
    statements = [s for s in sentences if not s.endswith(("?", "？")) and not (GREETING.match(s) and len(s) < SHORT)]
    words = (statements or sentences or [""])[0].split()
    return " ".join(words[:SUMMARY_WORDS]) + (" …" if len(words) > SUMMARY_WORDS else "")


def tags_of(text: str) -> list[str]:
    names = [match.group() for pattern in (IDENTIFIER, NAME) for match in pattern.finditer(text)]
    words = sorted(
        (word for word in WORD.findall(text) if len(word) > TAG_LETTERS and word.isalpha()), key=len, reverse=True
    )
    distinct = {tag.lower(): tag.lower() for tag in [*names, *words] if is_subject(tag)}
    return list(distinct)[:MAX_TAGS]


def is_subject(word: str) -> bool:
    """Return whether a word may name what a text is about."""
    if "," in word or len(word) > 80:
        return False
    return word.lower().removesuffix("s") not in TIMES and not CUE.fullmatch(word)


def dimension_of(text: str) -> str:
    cues = {
        Dimension.PREFERENCE: PREFERENCE,
        Dimension.RELATIONSHIP: RELATIONSHIP,
        Dimension.EVENT: EVENT,
        Dimension.ENTITY: ENTITY,
    }
    return next((str(dimension) for dimension, cue in cues.items() if has(cue, text)), Dimension.KNOWLEDGE.value)


def has(pattern: str, text: str) -> bool:
    return bool(re.search(rf"\b(?:{pattern})\b", text, re.I))
