"""Recognition of secrets in texts: tokens, passwords and keys. Without Django, since programs of the client use it."""

from __future__ import annotations

import math
import re
from collections import Counter

# Tokens of this product and of others, which can be told by how they begin.
TOKENS = r"""
    \bcpl_[\w-]{8,} | \bwhsec_[\w+/=-]{8,}
    | \b[spr]k_(?:live|test)_\w{10,} | \bsk-(?:ant|proj|svcacct|or)-[\w-]{8,} | \bsk-[A-Za-z0-9]{20,}
    | \bgh[opsur]_\w{20,} | \bgithub_pat_\w{20,}
    | \bglpat-[\w-]{16,} | \bxox[abeprs]-[\w-]{10,} | \bA(?:KIA|SIA)[A-Z0-9]{12,} | \bAIza[\w-]{30,}
    | \bdapi[0-9a-f]{24,} | \beyJ[\w-]{10,300}\.[\w-]{10}
"""
NAMES = r"pass(?:word|wd|phrase|wort)?|contrase[ñn]a|kennwort|secret|token|api[ _-]?key|authorization|credentials?"
PATTERNS = re.compile(
    rf"""
      (?:{NAMES})\w{{0,20}}\b ["']? \s{{0,3}} (?:[:=]|\s(?:is|ist|es|lautet)\b) \s{{0,3}}
      ["']? \S{{4}}  # password: …, token is …
    | \bbearer\s+[\w.~+/-]{{12,}}
    | :// [^\s/:@]{{1,100}} : [^\s/@]{{1,200}} @  # the password of a URL
    | -----BEGIN\ [A-Z ]*(?:PRIVATE\ KEY|CERTIFICATE)
    | {TOKENS}
    """,
    re.IGNORECASE | re.VERBOSE,
)
# What makes a stored text private. A sentence about passwords must not, so a value has a digit or a sign.
STATED = re.compile(
    rf"""
      {TOKENS}
    | :// [^\s/:@]{{1,100}} : [^\s/@]{{1,200}} @
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | \b(?:bearer|basic)\s+ (?=[\w.~+/-]*[0-9]) [\w.~+/-]{{12,}}
    | \bauthorization\s{{0,3}}:\s{{0,3}}\w+\s+[\w.~+/=-]{{8,}}
    | \b(?:mysql|mysqldump|mariadb|psql)\b [^|;&\n]{{0,200}}? \s -p (?=\S*[0-9]) \S{{4,}}
    | \b(?:\w{{0,20}}[_-])? (?:{NAMES}|pwd|(?:account|access|private)[_-]?key) \b
      (?:\s+ [\w.-]{{1,30}}){{0,5}}? \s{{0,3}}
      (?: [:=] | \s(?:is|ist|es|lautet)\s ) \s{{0,3}} ["']?
      (?= [^\s"']{{0,80}} [0-9!$%&?#@+*^~] ) [^\s"',;]{{5,}}  # with a digit or a sign, as plain words have none
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Without hyphens and underscores, which divide the words of identifiers and the groups of ids.
LONG_WORD = re.compile(r"[A-Za-z0-9+/=]{20,}")
MIN_BITS = 3.6  # bits per character of a random word


def contains_secret(text: str) -> bool:
    """Return whether a text contains something that looks like a secret. Errs on the side of saying so."""
    return bool(PATTERNS.search(text)) or any(_is_random(word) for word in LONG_WORD.findall(text))


def states_secret(text: str) -> bool:
    """Return whether a text states a secret in one of the usual forms. Unlike `contains_secret`, errs on the side of
    saying that it does not: such a memory is stored private.
    """
    return bool(STATED.search(text))


def _is_random(word: str) -> bool:
    if not (re.search(r"\d", word) and re.search(r"[A-Za-z]", word)):
        return False
    counts = Counter(word).values()
    bits = -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
    return bits >= MIN_BITS or bool(re.fullmatch(r"[0-9a-f]{32,}", word))
