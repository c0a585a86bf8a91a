"""Guesses at the name that somebody meant by an unknown one: another word for it, or a slip of the pen.

A guess is followed by whoever gets it, so there is none where it may be the opposite of what was meant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

# What people and programs call a choice → what one of ours is called.
OTHER_WORDS: Mapping[str, Sequence[str]] = {
    # commands
    "supersede": ("correct", "replace", "fix", "amend"),
    "forget": ("delete", "remove", "archive", "drop", "discard"),
    "update": ("edit", "change", "revise", "modify", "set", "patch"),
    "remember": ("add", "store", "save", "create", "write", "insert", "new", "put"),
    "get": ("read", "show", "fetch", "view", "open", "retrieve"),
    "list": ("all",),
    "list_changesets": ("list", "changesets"),
    "verify": ("confirm", "validate", "check", "still_true"),
    "restore": ("undelete", "recover", "unarchive", "unforget"),
    "feedback": ("report", "rate", "mark"),
    "history": ("log", "versions", "revisions"),
    "approve": ("accept",),
    "reject": ("deny", "refuse", "dismiss"),
    "undo_review": ("undo", "unapprove", "unreject", "disapprove", "reopen"),
    "rollback": ("revert", "roll_back", "rollback_changeset", "roll_back_changeset"),
    "synthesize": ("plan", "preview", "draft"),
    "aggregate": ("count", "group", "sum", "group_by"),
    "semantic": ("search", "similar"),
    # tools
    "memory_recall": ("memory_search", "search_memory", "search_memories", "recall", "search", "find", "memory_query"),
    "memory_manage": ("remember", "add_memory", "create_memory", "save_memory", "store_memory", "update_memory"),
    "query_sql": ("sql", "run_sql", "execute_sql", "query", "sql_query"),
    # arguments
    "content": ("text", "fact", "memory", "insight_text", "body", "value"),
    "insight_text": ("text", "content", "insight", "claim"),
    "text": ("content", "note", "fact"),
    "id": ("memory_id", "record_id", "uuid", "old_id"),
    "changeset_id": ("id", "changeset"),
    "insight_ids": ("insight_id", "ids", "id"),
    "used": ("memory_ids", "ids", "useful"),
    "query": ("q", "text", "question", "search"),
    "sql": ("query", "statement"),
    "urn": ("name", "entity", "entity_urn", "id"),
    "entity_urns": ("entities", "entity", "urns", "about", "tables"),
    "filter_entity_urn": ("entity", "entity_urn", "entity_urns", "urn"),
    "filter_category": ("category",),
    "filter_status": ("status",),
    "filter_dimension": ("dimension",),
    "review_notes": ("question", "reason", "note", "notes", "comment"),
    "limit": ("max", "top_k", "k", "count", "n"),
}
SIMILAR = 0.75  # minimum similarity of a slip of the pen
OPPOSITES = ("un", "dis", "re")  # with one of these before it, a word may mean the opposite


def nearest(value: str, options: Iterable[str], *, never: Collection[str] = ()) -> str:
    """Return the option that was most likely meant: by another word for it, or by a slip of the pen; "" if none.

    A slip of the pen is never taken for an option in `never`, which has effects that can't be undone.
    """
    known = list(options)
    word = str(value).strip().lower().replace("-", "_").replace(" ", "_")
    meant = next((name for name, words in OTHER_WORDS.items() if name in known and word in words), "")
    return meant or _slip(word, [option for option in known if option not in never])


def _slip(word: str, known: Sequence[str]) -> str:
    by_name = {option.lower(): option for option in known}
    if word in by_name:
        return by_name[word]
    guess = next(iter(get_close_matches(word, by_name, n=1, cutoff=SIMILAR)), "")
    if any(word.startswith(before) != guess.startswith(before) for before in OPPOSITES if len(guess) != len(word)):
        return ""
    return by_name.get(guess, "")
