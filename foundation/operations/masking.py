"""Secrets in prompts and statements, masked before they leave the machine.

A filter for accidents, not a guarantee: it knows the usual shapes of secrets only.
"""

from __future__ import annotations

import re

from foundation.operations.secrets import TOKENS

MASK = "***"
PATTERNS = (
    # a password within an address: postgres://user:password@host
    (re.compile(r"(\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@]{0,100}:)[^\s@/]{1,200}(?=@)", re.IGNORECASE), r"\1" + MASK),
    # PGPASSWORD=…, api_key: …, "token": "…"
    (
        re.compile(
            r"""(\b[\w-]{0,40}(?:passw(?:or)?d|pwd|secret|token|api[_-]?key|credentials?)["']?\s{0,3}[=:]\s{0,3}["']?)"""
            r"""[^\s"',;&]{3,500}""",
            re.IGNORECASE,
        ),
        r"\1" + MASK,
    ),
    (re.compile(r"(\b(?:bearer|basic)\s+)[\w.~+/=-]{8,2000}", re.IGNORECASE), r"\1" + MASK),
    (
        re.compile(r"(\b(?:mysql|mysqldump|mariadb)\b[^|;&\n]{0,300}?\s(?:-p|--password=))[^\s'\";|&]{1,200}"),
        r"\1" + MASK,
    ),
    # tokens that can be told by how they begin; a mask for a text that only looks like one does no harm
    (re.compile(rf"(?:{TOKENS})[\w.+/=-]{{0,2000}}", re.IGNORECASE | re.VERBOSE), MASK),
    (re.compile(r"\b(?:cpl_|whsec_|sk[-_]|gh[opsur]_|xox[abeprs]-|A[KS]IA|AIza|dapi|eyJ)[\w.+/=-]{8,4000}"), MASK),
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,10000}"), MASK),
)


def masked(text: str) -> str:
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text
