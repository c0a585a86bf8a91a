"""Statements: a text as the sequence of what it says, without the words that only hold a sentence together.

A claim keeps content words with their prepositions, negations, names, numbers with units, expressions of time and
the tense. Articles, auxiliaries and polite phrases are left out. Sentences that differ only in such words, in the
passive voice, in a genitive or in the place of a question word have the same claim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache

from django.conf import settings

from foundation.operations.normal_form import normal_form
from memories.texts import words
from memories.texts.language import language_of
from memories.texts.parts import AT_END, Claim, PartKind, PlacedTime, TextToken
from memories.texts.rearrangement import rearrange
from memories.texts.values import (
    MULTIPLIERS,
    ORDINALS,
    PRIVATE_USE,
    UNITS,
    lift_times,
    read_number,
    unit_of,
)

TOKEN = re.compile(
    r"[\ue000-\uf8ff]"  # a time
    r"|urn:[^\s,;\"']+|https?://\S+|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"
    r"|[$€£]?(?<![\w.])[-−]?\d{1,3}(?:[ ' ]\d{3})+(?![\d\w])"
    r"|(?:(?<![\w.])[-−])?\d+(?:[.,]\d+)*(?![\w])"
    r"|\w+(?:[./:#@]\w+)+"
    r"|°[CF]|\w+(?:['-]\w+)*"
    r"|[!<>=]=|<>|[%$€£+*/=<>-]|[.,;:!?()]",
)
QUANTITY = re.compile(r"(-?\d+(?:[.,]\d+)*)([^\W\d_]+)")  # "5km", "10k", "3rd"
ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)", re.IGNORECASE)
CODE = re.compile(r"[./:#@_\d]|[A-ZÄÖÜ]{2}|[a-z][A-Z]")


@lru_cache(maxsize=2_000)  # each of several candidates is compared with the same text
def read_claim(text: str, language: str) -> Claim:
    plain = PRIVATE_USE.sub("", normal_form(text)).replace("’", "'").replace("‘", "'")
    plain, times = lift_times(plain, language)
    for pattern, replacement in (*words.CONTRACTIONS.get(language, ()), *words.PHRASES.get(language, ())):
        plain = re.sub(pattern, replacement, plain, flags=re.IGNORECASE)
    raw = [match.group() for match in TOKEN.finditer(plain)]
    stems = words.load_stems(
        frozenset(word.casefold().removesuffix("'s") for word in raw if word[0].isalpha()), language
    )
    claim = Claim(text, language)
    _Reading(claim, raw, stems, [(time.key, time.text) for time in times]).run()
    rearrange(claim)
    return claim


# Letters of languages that have no rules here. Detection knows RECALL_LANGUAGES only and takes such texts for one of
# them, and then "no" (Portuguese: in the) would negate.
FOREIGN = re.compile("[ãõłżąęśźćńőűčšžřåøæ]", re.IGNORECASE)


def claim_language(text: str) -> str:
    """Return the language of a text, or "" for one that has no rules. The function words decide if a text is short."""
    return _language(text, tuple(settings.RECALL_LANGUAGES))


@lru_cache(maxsize=2_000)
def _language(text: str, languages: tuple[str, ...]) -> str:
    if FOREIGN.search(text):
        return ""
    found = language_of(text)
    if found not in ("", *words.LANGUAGES):
        return found
    present = re.findall(r"[^\W\d_]+", text.casefold())
    counts = {
        code: sum(
            word in vocabulary[code]
            for word in present
            for vocabulary in (words.ARTICLES, words.PRESENT, words.PAST, words.PREPOSITIONS, words.QUESTION_WORDS)
        )
        for code in words.LANGUAGES
    }
    best = [code for code in words.LANGUAGES if counts[code] == max(counts.values())]
    if len(best) == 1:
        return best[0]
    if found:
        return found
    if re.search(r"[äöüß]", text):
        return "de"
    return "es" if re.search(r"[áéíóúñ¿¡]", text) else "en"


@dataclass
class _Reading:
    """One pass over the words of a text, which fills its claim."""

    claim: Claim
    raw: Sequence[str]
    stems: dict[str, str]
    times: Sequence[tuple[str, str]]
    prefix: str = ""
    prefix_text: str = ""
    case: str = ""
    is_bound: bool = False
    is_start: bool = True

    def run(self) -> None:
        position = 0
        while position < len(self.raw):
            position += self._read(position)
        self._flush()
        last = self._content_words()
        times = self.claim.times
        self.claim.times = [replace(t, anchor=AT_END) if t.anchor and t.anchor == last else t for t in times]

    def _content_words(self) -> int:
        content = [
            t for t in self.claim.tokens if t.kind not in (PartKind.QUESTION, PartKind.PREPOSITION) and not t.prefix
        ]
        return sum(t.text[0].isupper() or self.claim.language != "de" for t in content)

    def _read(self, position: int) -> int:
        """Read the words at a position, and return how many were used."""
        word = self.raw[position]
        lower = word.casefold()
        language = self.claim.language
        if PRIVATE_USE.match(word):
            self._add_time(*self.times[ord(word) - 0xE000])
            return 1
        if word in ".,;:!?()":
            self._flush()
            self.is_bound = False
            self.is_start = self.is_start or word in ".!?:"
            return 1
        if used := self._read_number(position):
            return used
        if lower in ("'s", "s'"):
            return 1
        if word.isupper() and len(word) > 1 and lower in words.CAPITALIZED_NAMES and not self.claim.text.isupper():
            self._add(TextToken(word, word, PartKind.NAME))
            return 1
        if self._is_function_word(lower, position):
            self.is_bound = False
            self.is_start = False
            return 1
        if lower in words.PREPOSITIONS.get(language, ()):
            self._flush()
            self.prefix = lower
            self.prefix_text = word
            self.is_bound = False
            self.is_start = False
            return 1
        self._add_word(word)
        return 1

    def _is_function_word(self, lower: str, position: int) -> bool:
        claim = self.claim
        language = self.claim.language
        if language == "de" and lower in words.EXISTENCE:
            claim.copula = claim.copula or words.EXISTENCE[lower]
            return True
        if lower in words.ARTICLES.get(language, ()):
            self.case = lower[-1] if language == "de" and lower not in ("ein", "eine") else ""
            return True
        for tense, vocabulary in (("past", words.PAST), ("future", words.FUTURE), ("present", words.PRESENT)):
            if lower in vocabulary.get(language, ()):
                self._flush()
                self._add_auxiliary(lower, tense, position)
                return True
        if lower in ("we", "wir") and self.is_bound is False and claim.tense:
            return True  # "did we ship" and "was shipped"
        if lower in ("that", "who", "which") and self._is_relative():
            return True
        return lower in words.FILLERS.get(language, ())

    def _add_auxiliary(self, lower: str, tense: str, position: int) -> None:
        claim = self.claim
        auxiliary = words.AUXILIARIES.get(lower, "")
        if auxiliary == "do" and claim.do_at < 0:
            claim.do_at = len(claim.tokens)
        if auxiliary == "be" and self._is_copula(position):
            claim.copula = claim.copula or tense
            return
        if auxiliary in ("be", "have", "become"):
            # In German, the number tells which noun is the subject: "hat die Bank", "haben die Bank".
            is_plural = claim.language == "de" and lower.endswith(("en", "sind"))
            claim.auxiliaries.add(f"{auxiliary} plural" if is_plural else auxiliary)
        if tense == "past" or not claim.tense:
            claim.tense = tense

    def _is_copula(self, position: int) -> bool:
        """Return whether a form of "be" only links words, so that no participle can follow it."""
        tokens = self.claim.tokens
        language = self.claim.language
        before = self.raw[position - 1].casefold() if position else ""
        after = self.raw[position + 1].casefold() if position + 1 < len(self.raw) else ""
        if "there" in (before, after) or (len(tokens) == 1 and tokens[0].text.casefold() in ("what", "was")):
            return True
        if before in (",", ":"):  # a question after a phrase, as in "In May, is the bridge closed?"
            return False
        is_linked = after in words.PREPOSITIONS.get(language, ()) or after in words.ARTICLES.get(language, ())
        return is_linked and bool(tokens) and tokens[-1].kind != PartKind.QUESTION

    def _is_relative(self) -> bool:
        tokens = self.claim.tokens
        return not self.prefix and len(tokens) > 1 and tokens[-1].kind in (PartKind.WORD, PartKind.NAME)

    def _read_number(self, position: int) -> int:
        word = self.raw[position]
        language = self.claim.language
        following = [part.casefold() for part in self.raw[position + 1 : position + 3]]
        used = 1
        unit = ""
        if word in "$€£" and following and following[0][0].isdigit():
            used = 2
            unit = word
            word = self.raw[position + 1]
        if match := ORDINAL.fullmatch(word):
            self._add(TextToken(f"#{match[1]}", word, PartKind.NUMBER))
            return used
        if match := QUANTITY.fullmatch(word):
            suffix = match[2].casefold()
            if not unit_of(match[2]) and suffix not in MULTIPLIERS:
                return 0
            word = match[1]
            following = [suffix, *following]
            used = used - 1
        value = read_number(word, language)
        if value is None:
            if word.casefold() in ORDINALS:
                self._add(TextToken(f"#{ORDINALS[word.casefold()]}", word, PartKind.NUMBER))
                return 1
            return 0
        if word.casefold() == "one" and self.claim.tokens and self.claim.tokens[-1].key == "which":
            return 1
        while following and following[0] in MULTIPLIERS:
            value *= MULTIPLIERS[following.pop(0)]
            used += 1
            if not following:
                following = [part.casefold() for part in self.raw[position + used : position + used + 1]]
        spelled = self.raw[position + used] if position + used < len(self.raw) else ""
        if not unit and following and following[0] in UNITS and (unit_of(spelled) or used == 0):
            unit = following[0]
            used = used + 1
        base, factor = UNITS[unit] if unit else ("", Decimal(1))
        text = " ".join(self.raw[position : position + used]) or word
        self._add(TextToken(f"{_plain(value * factor)} {base}".strip(), text, PartKind.NUMBER, unit=base))
        return used

    def _add_word(self, word: str) -> None:
        lower = word.casefold()
        language = self.claim.language
        is_possessive = language == "en" and lower.endswith("'s")
        lower = lower.removesuffix("'s")
        key = words.key_of(lower, self.stems.get(lower, lower), language)
        if language == "de" and re.search("[äöü]", lower):
            key = f"{key}¨"  # the stemmer unites "fordern" and "fördern"
        key = words.synonym(key, language)
        if lower in words.NEGATIONS.get(language, ()) or lower == "no_longer":
            kind = PartKind.NEGATION
            key = "not" if lower in ("no", "kein", "keine", "keinen", "keinem", "keiner", "nicht") else lower
        elif lower in words.QUESTION_WORDS.get(language, ()):
            kind = PartKind.QUESTION
            key = "which" if lower == "what" else lower
            if lower.startswith("welch"):
                key = "welch"
        elif lower in words.CONJUNCTIONS.get(language, ()):
            kind = PartKind.CONJUNCTION
        else:
            kind = PartKind.NAME if self._is_name(word) else PartKind.WORD
        if CODE.search(word) and kind == PartKind.NAME:
            key = lower
        endings = {"en": ("ed",), "de": ("te", "test")}.get(language, ())
        past = lower.endswith(endings) and len(lower) > 4 and kind == PartKind.WORD and not word[0].isupper()
        self._add(TextToken(key, word, kind, is_past=past))
        if is_possessive:
            self.claim.tokens[-1] = replace(self.claim.tokens[-1], text=word.removesuffix("'s"))
            self._add(TextToken("'s", "'s", PartKind.CONJUNCTION))

    def _is_name(self, word: str) -> bool:
        if "_" in word and word.casefold().split("_")[0] in ("how", "wie", "at", "more", "less", "no"):
            return False
        if CODE.search(word):
            return True
        return word[0].isupper() and len(word) > 1 and not self.is_start and self.claim.language != "de"

    def _add(self, token: TextToken) -> None:
        token = replace(token, prefix=self.prefix, case=self.case, is_bound=self.is_bound)
        self.claim.tokens.append(token)
        self.prefix = ""
        self.prefix_text = ""
        self.case = ""
        self.is_bound = True
        self.is_start = False

    def _add_time(self, key: str, text: str) -> None:
        prefix = "" if self.prefix in words.TIME_PREPOSITIONS else self.prefix
        self.claim.times.append(PlacedTime(key, text, prefix, self._content_words()))
        self.prefix = ""
        self.prefix_text = ""
        self.case = ""
        self.is_bound = False
        self.is_start = False

    def _flush(self) -> None:
        """Keep a preposition that has no object, as in "Who does Anna report to?"."""
        if self.prefix:
            self.claim.tokens.append(TextToken(self.prefix, self.prefix_text, PartKind.PREPOSITION, is_bound=False))
            self.prefix = ""
            self.prefix_text = ""


def _plain(value: Decimal) -> str:
    return f"{value.normalize():f}"
