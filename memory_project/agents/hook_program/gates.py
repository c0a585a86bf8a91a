"""Decide on the client which prompts and tool calls are worth a request. The others never leave the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MIN_CHARACTERS = 12
MIN_WORDS = 3
MIN_IDEOGRAPHS = 6  # Chinese and Japanese don't put spaces between words
MAX_NESTING = 6

WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
SLASH_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")
# Claude Code puts what no person has written into one of these tags at the start of a prompt.
WRAPPERS = (
    "task-notification",  # a background agent or a background command returns
    "teammate-message",
    "cross-session-message",
    "channel",
    "command-name",
    "command-message",
    "command-args",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "user-memory-input",
    "system-reminder",
    "environment_context",  # Codex
    "user_instructions",
)
WRAPPED = re.compile(rf"<(?:{'|'.join(WRAPPERS)})[\s>]")
INTERRUPTED = "[Request interrupted"
# A prompt of nothing but these words says neither what it is about nor what to look up.
_WORDS = """
a again ahead all alright and awesome changes commit continue cool correct did do does done excellent exactly
fine go going good great i it just keep later lgtm like looks me much nice no nope now ok okay on perfect please
proceed push really right same so sounds stop sure thank thanks that that's the then this try very wait well
works would yeah yep yes you

alles also auf aus bitte danke das dir du einfach einverstanden es genau gerne gut in ist ja jetzt kannst klar klasse
klingt los mach machen mal nein nochmal ordnung passt prima richtig schön sehr sieht sofort stimmt super vielen dank
weiter weitermachen wunderbar

acuerdo adelante ahora así bien bueno claro continua continúa correcto de el eso está exacto favor genial gracias
hazlo la listo lo muchas muy otra perfecto por que si sí sigue suena todo vale y ya
"""  # English, German, Spanish
ACKNOWLEDGEMENTS = frozenset(_WORDS.split())

SHELLS = frozenset(
    {
        "bash",
        "powershell",
        "shell",  # Cursor, Codex
        "local_shell",
        "shell_command",
        "exec_command",
        "run_shell_command",  # Gemini CLI
        "execute_command",  # Cline
    }
)
OURS = "commonplace"
MCP_TOOL = re.compile(r"mcp(?:__|_|:)", re.IGNORECASE)
SQL_TOOL = re.compile(r"sql|query|database|warehouse|snowflake|bigquery|duckdb|postgres|clickhouse", re.IGNORECASE)
SELECT, FROM = (re.compile(rf"\b{word}\b", re.IGNORECASE) for word in ("select", "from"))
SQL = re.compile(
    r"\binsert\s+into\b|\bupdate\s+\S{1,200}\s+set\b|\bdelete\s+from\b|\bmerge\s+into\b"
    r"|\b(?:create|alter|drop|truncate)\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?(?:table|view|materialized\s+view)\b"
    r"|\bdescribe\s+\w|\bshow\s+(?:tables|columns|create)\b",
    re.IGNORECASE,
)
SQL_PROGRAM = re.compile(r"(?:^|[\s;|&(`/\"'])(?:psql|dbt|bq|duckdb|sqlite3|snowsql|mysql)(?:\.exe)?(?=[\s\"']|$)")


def reason_to_skip(prompt: str) -> str:
    """Return why nothing is looked up for this prompt, or "" if it is worth a request."""
    text = prompt.strip()
    if WRAPPED.match(text) or text.startswith(INTERRUPTED):
        return "no person wrote it"
    if SLASH_COMMAND.match(text) or text.startswith(("!", "#")):
        return "a command of the program"
    words = WORD.findall(text.lower())
    if len(IDEOGRAPH.findall(text)) >= MIN_IDEOGRAPHS:
        return ""
    if len(text) < MIN_CHARACTERS or len(words) < MIN_WORDS:
        return "too short"
    if all(word.replace("’", "'") in ACKNOWLEDGEMENTS for word in words):
        return "an acknowledgement"
    return ""


def statement_in(tool: str, tool_input: Any) -> str:
    """Return the SQL or command line of a tool call that is about a database, or ""."""
    if OURS in tool.lower():
        return ""
    texts = list(_texts(tool_input))
    if tool.lower() in SHELLS:
        command = "\n".join(texts[:1]) if isinstance(tool_input, str) else _command(tool_input) or "\n".join(texts)
        return command if _has_sql(command) or SQL_PROGRAM.search(command) else ""
    if MCP_TOOL.match(tool) or SQL_TOOL.search(tool):
        return next((text for text in texts if _has_sql(text)), "")
    return ""


def _has_sql(text: str) -> bool:
    # two searches, because one pattern for both takes a time that grows with the square of the text
    found = SELECT.search(text)
    return bool(SQL.search(text) or (found and FROM.search(text, found.end())))


def _command(tool_input: Any) -> str:
    """Return the command of a shell's input: a text, or a list of arguments as Codex has it."""
    command = tool_input.get("command", tool_input.get("cmd")) if isinstance(tool_input, dict) else None
    if isinstance(command, list):
        return " ".join(str(part) for part in command)
    return command if isinstance(command, str) else ""


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < MAX_NESTING and isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner, depth + 1)
    elif depth < MAX_NESTING and isinstance(value, list):
        for inner in value:
            yield from _texts(inner, depth + 1)


def parsed_arguments(value: Any) -> Any:
    """Return the arguments of a tool call. Copilot CLI sends them as a JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
