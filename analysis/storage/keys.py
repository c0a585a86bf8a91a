"""Keys and prefixes that callers pass. They can't leave the folder of the store, however a server reads them."""

from __future__ import annotations

import re
from urllib.parse import unquote

from foundation.operations.errors import Invalid

MAX_KEY_BYTES = 1_024  # of the whole key, as S3 limits it
DECODINGS = 2  # a proxy in front of the server may decode a key once more
ALLOWED = "a key below the store's prefix as object_list returns it, without a leading slash and without . and .. parts"


def check(field: str, text: str, folder: str) -> str:
    """Return the whole key: the text below `folder`. Raises Invalid if the text is not safe or too long."""
    if not is_safe(text):
        raise Invalid("leads outside of the store", field=field, allowed=ALLOWED)
    key = folder + text
    if len(key.encode()) > MAX_KEY_BYTES:
        raise Invalid("is too long", field=field, allowed=f"at most {MAX_KEY_BYTES - len(folder.encode())} bytes")
    return key


def is_safe(text: str) -> bool:
    """Return whether the text has no leading slash and no . or .. part, also where it is percent-encoded."""
    # To S3 these are ordinary characters, but servers that keep objects as files may resolve them.
    for _ in range(DECODINGS + 1):
        parts = re.split(r"[/\\]", text)
        if (not parts[0] and len(parts) > 1) or not {".", ".."}.isdisjoint(parts) or "\0" in text:
            return False
        text = unquote(text)
    return True
