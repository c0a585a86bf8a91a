"""Display of untrusted texts. Invisible characters can disguise what a text says, so they are made visible."""

from __future__ import annotations

import re

# Directional overrides and isolates (Unicode Bidirectional Algorithm, UAX #9), other invisible marks, the tag
# characters, which spell hidden ASCII, and control characters except tab and line feed. The zero-width joiner and
# non-joiner are not included, because Persian, Indic scripts and emoji need them.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def show_invisible(text: str) -> str:
    """Replace each invisible character with its code point in brackets, for example ⟦U+202E⟧."""
    return CONTROLS.sub(lambda match: f"⟦U+{ord(match[0]):04X}⟧", text)
