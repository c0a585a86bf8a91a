"""difflib's comparison of two sequences, with a limit on its work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

# difflib looks at each pair of equal items, again for each block that it finds. Two texts of 4,000 ordinary characters
# have some thousand pairs. Two texts that repeat a word have millions, which would take minutes.
MAX_PAIRS = 100_000


def matcher(first: Sequence[str], second: Sequence[str]) -> SequenceMatcher[str] | None:
    """Return a matcher of the two sequences, or None if comparing them would take too long."""
    counts = Counter(first)
    other_counts = Counter(second)
    if sum(count * other_counts[item] for item, count in counts.items()) > MAX_PAIRS:
        return None
    return SequenceMatcher(None, first, second, autojunk=False)
