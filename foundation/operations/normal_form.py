"""The form in which texts are compared, so that full-width letters or ligatures are found by the usual ones.

Texts are stored as they were written. PostgreSQL's normalize(text, NFKC) is the same form.
"""

from __future__ import annotations

import unicodedata


def normal_form(text: str) -> str:
    return unicodedata.normalize("NFKC", text)
