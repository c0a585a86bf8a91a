"""The block that memories arrive in, which both the agent and the search for candidates can tell from other texts."""

from __future__ import annotations

import re

BEGIN, END = "<commonplace-memories>", "</commonplace-memories>"
MAX_CHARACTERS = 8_000  # Claude Code passes on 10,000 characters whole and less of longer texts
# Gemini CLI escapes the tags, and puts what a hook said at the start of a session before the first prompt.
# A block whose end was cut off reaches to the end.
BLOCKS = (
    re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)", re.DOTALL),
    re.compile(rf"{re.escape(BEGIN)}.*?(?:{re.escape(END)}|\Z)", re.DOTALL),
    re.compile(r"&lt;commonplace-memories&gt;.*?(?:&lt;/commonplace-memories&gt;|\Z)", re.DOTALL),
)
CUT = "(cut)"


def framed(text: str) -> str:
    """Return the text in exactly one block of at most MAX_CHARACTERS, or "" if there is nothing in it."""
    inner = text.replace(BEGIN, "").replace(END, "").strip()
    # lone surrogates can't be written as UTF-8 by the program that reads the answer
    inner = inner.encode("utf-8", "replace").decode()
    if not inner:
        return ""
    room = MAX_CHARACTERS - len(BEGIN) - len(END) - 2
    if len(inner) > room:
        kept = inner[: room - len(CUT) - 1]
        whole_lines, newline, _ = kept.rpartition("\n")
        inner = f"{whole_lines if newline else kept}\n{CUT}"
    return f"{BEGIN}\n{inner}\n{END}"


def without_blocks(text: str) -> str:
    """Return the text without what hooks have added to it, so that no memory is looked up or proposed again."""
    for block in BLOCKS:
        text = block.sub("", text)
    return text
