"""What somebody meant by a name that is none of ours: another word for it, or a slip of the pen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

# What people and programs call a choice → what one of ours is called.
OTHER_WORDS: Mapping[str, Sequence[str]] = {
    "supersede": ("correct", "replace", "fix", "amend"),
    "forget": ("delete", "remove", "archive", "drop", "discard"),
    "update": ("edit", "change", "revise", "modify", "set", "patch"),
    "remember": ("add", "store", "save", "create", "write", "insert", "new", "put"),
    "get": ("read", "show", "fetch", "view", "open", "retrieve"),
    "list": ("search", "find", "all", "recall", "query"),
    "verify": ("confirm", "validate", "check"),
    "restore": ("undelete", "recover", "unarchive"),
    "rollback": ("revert", "undo", "roll_back"),
    "synthesize": ("plan", "preview", "draft"),
    "content": ("text", "fact", "memory", "insight_text", "body", "value"),
    "insight_text": ("text", "content", "insight", "claim"),
    "id": ("memory_id", "record_id", "uuid"),
    "query": ("q", "text", "question", "search"),
    "entity_urns": ("entities", "entity", "urns", "about", "tables"),
    "limit": ("max", "top_k", "k", "count", "n"),
}


def nearest(value: str, options: Iterable[str]) -> str:
    """Return the option that was most likely meant: by another word for it, or by a slip of the pen; "" if none."""
    known = list(options)
    word = str(value).strip().lower().replace("-", "_")
    meant = next((name for name, words in OTHER_WORDS.items() if name in known and word in words), "")
    return meant or next(iter(get_close_matches(word, known, n=1)), "")
