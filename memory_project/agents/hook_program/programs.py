"""The supported programs: what their hooks send, and the only keys that each of them accepts as an answer.

docs/agents.md names the versions and sources that this table was checked against. What could not be confirmed is left
out, such as prompts in Copilot CLI, whose answer is ignored there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_project.agents.hook_program.gates import parsed_arguments

START, PROMPT, TOOL, END = "session-start", "prompt", "tool", "candidates"
Payload = Mapping[str, Any]


@dataclass(frozen=True)
class ProgramEvent:
    kind: str
    session: str = ""
    folder: str = ""
    source: str = ""
    prompt: str = ""
    tool: str = ""
    tool_input: Any = None
    transcript: str = ""
    is_by_agent: bool = False  # of a subagent


@dataclass(frozen=True)
class Program:
    name: str
    title: str
    events: Mapping[str, str]  # the program's event → our kind
    read: Callable[[str, str, Payload], ProgramEvent]  # (event, kind, payload)
    answer: Callable[[str, str], dict[str, Any]]  # (event, text)


def _text(payload: Payload, *keys: str) -> str:
    for key in keys:
        value = payload.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def _first(payload: Payload, key: str) -> str:
    value = payload.get(key)
    return value[0] if isinstance(value, list) and value and isinstance(value[0], str) else ""


def _part(payload: Payload, key: str) -> Payload:
    value = payload.get(key)
    return value if isinstance(value, dict) else {}


def _read_claude(event: str, kind: str, payload: Payload) -> ProgramEvent:
    """Read the fields that Claude Code, Codex and Gemini CLI have in common."""
    return ProgramEvent(
        kind=kind,
        session=_text(payload, "session_id"),
        folder=_text(payload, "cwd"),
        source=_text(payload, "source", "trigger", "reason"),
        prompt=_text(payload, "prompt"),
        tool=_text(payload, "tool_name"),
        tool_input=payload.get("tool_input"),
        transcript=_text(payload, "transcript_path"),
        is_by_agent=bool(_text(payload, "agent_id")),
    )


def _read_cursor(event: str, kind: str, payload: Payload) -> ProgramEvent:
    return ProgramEvent(
        kind=kind,
        session=_text(payload, "conversation_id", "session_id"),
        folder=_text(payload, "cwd") or _first(payload, "workspace_roots"),
        source="startup" if kind == START else "",
        prompt=_text(payload, "prompt"),
        tool=_text(payload, "tool_name"),
        tool_input=parsed_arguments(payload.get("tool_input")),
    )


def _read_copilot(event: str, kind: str, payload: Payload) -> ProgramEvent:
    return ProgramEvent(
        kind=kind,
        session=_text(payload, "sessionId"),
        folder=_text(payload, "cwd"),
        source=_text(payload, "source"),
        tool=_text(payload, "toolName"),
        tool_input=parsed_arguments(payload.get("toolArgs")),
    )


def _read_cline(event: str, kind: str, payload: Payload) -> ProgramEvent:
    tool = _part(payload, "postToolUse")
    return ProgramEvent(
        kind=kind,
        session=_text(payload, "taskId"),
        folder=_first(payload, "workspaceRoots"),
        source={"TaskStart": "startup", "TaskResume": "resume"}.get(event, ""),
        prompt=_text(_part(payload, "userPromptSubmit"), "prompt"),
        tool=_text(tool, "toolName"),
        tool_input=tool.get("parameters"),
    )


def _answer_claude(event: str, text: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}


def _answer_cursor(event: str, text: str) -> dict[str, Any]:
    # without `continue` a prompt's answer would be incomplete
    return {**({"continue": True} if event == "beforeSubmitPrompt" else {}), "additional_context": text}


def _answer_copilot(event: str, text: str) -> dict[str, Any]:
    return {"additionalContext": text}


def _answer_cline(event: str, text: str) -> dict[str, Any]:
    return {"cancel": False, "contextModification": text}


PROGRAMS = {
    program.name: program
    for program in (
        Program(
            name="claude-code",
            title="Claude Code",
            events={
                "SessionStart": START,
                "UserPromptSubmit": PROMPT,
                "PostToolUse": TOOL,
                "PreCompact": END,
                "SessionEnd": END,
            },
            read=_read_claude,
            answer=_answer_claude,
        ),
        Program(
            name="codex",
            title="Codex",
            events={"SessionStart": START, "UserPromptSubmit": PROMPT, "PostToolUse": TOOL},
            read=_read_claude,
            answer=_answer_claude,
        ),
        Program(
            name="gemini",
            title="Gemini CLI",
            events={"SessionStart": START, "BeforeAgent": PROMPT, "AfterTool": TOOL},
            read=_read_claude,
            answer=_answer_claude,
        ),
        Program(
            name="cursor",
            title="Cursor",
            events={"sessionStart": START, "beforeSubmitPrompt": PROMPT, "postToolUse": TOOL},
            read=_read_cursor,
            answer=_answer_cursor,
        ),
        Program(
            name="copilot",
            title="Copilot CLI",
            events={"sessionStart": START, "postToolUse": TOOL},
            read=_read_copilot,
            answer=_answer_copilot,
        ),
        Program(
            name="cline",
            title="Cline",
            events={"TaskStart": START, "TaskResume": START, "UserPromptSubmit": PROMPT, "PostToolUse": TOOL},
            read=_read_cline,
            answer=_answer_cline,
        ),
    )
}
DEFAULT_PROGRAM = "claude-code"
