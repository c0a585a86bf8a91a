"""Display of untrusted texts: invisible characters are replaced, because they can falsify how a text reads."""

from __future__ import annotations

import re

# Directional overrides and isolates (Unicode Bidirectional Algorithm, UAX #9), other invisible marks, and control
# characters except tab and line feed. Joiners are not included: Persian, Indic scripts and emoji need them.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def show_invisible(text: str) -> str:
    """Replace each invisible character with its code point in brackets, for example ⟦U+202E⟧."""
    return CONTROLS.sub(lambda match: f"⟦U+{ord(match[0]):04X}⟧", text)
