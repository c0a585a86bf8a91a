"""Hooks in the files of other programs: ours are put in and taken out, and everybody else's stay byte by byte.

A file per program, or for Cline a script per event. `commonplace hook --install` and `--uninstall` are the callers.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from foundation.operations.errors import Conflict, Invalid
from memory_project.__main__ import CHECKOUT
from memory_project.agents.client_files import files, json_text
from memory_project.agents.hook_program.programs import PROGRAMS, Program

HOST_TIMEOUT_S = 5  # when the program gives up; the hook itself ends much earlier
Entry = dict[str, Any]
Place = tuple[str, ...]  # keys and positions of an entry in a file


@dataclass(frozen=True)
class HookFile:
    """File in which a program keeps its hooks. `handler` builds a command's entry, `matchers` are of tool events."""

    program: Program
    user: str
    project: str
    handler: Callable[[list[str]], Entry]
    override: str = ""  # a variable that names another folder than the user's
    fixed: Mapping[str, Any] | None = None  # what the file needs besides
    matchers: Mapping[str, str] | None = None
    is_nested: bool = True  # handlers are inside of groups
    has_comments: bool = False

    def path(self, *, is_project: bool) -> Path:
        if is_project:
            return Path.cwd() / self.project
        user = Path(self.user)
        if self.override and (folder := os.environ.get(self.override)):
            return Path(folder).expanduser().joinpath(*user.parts[2:])
        return user.expanduser()

    def group(self, event: str, command: list[str]) -> Entry:
        matcher = (self.matchers or {}).get(event)
        chosen = {"matcher": matcher} if matcher else {}
        handler = self.handler(command)
        return {**chosen, "hooks": [handler]} if self.is_nested else {**handler, **chosen}


def shell_line(command: Sequence[str]) -> str:
    return subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)


def powershell_line(command: Sequence[str]) -> str:
    return "& " + " ".join("'" + part.replace("'", "''") + "'" for part in command)


FILES = {
    file.program.name: file
    for file in (
        HookFile(
            program=PROGRAMS["claude-code"],
            user="~/.claude/settings.json",
            override="CLAUDE_CONFIG_DIR",
            project=".claude/settings.json",
            # with `args` no shell reads the command
            handler=lambda command: {
                "type": "command",
                "command": command[0],
                "args": command[1:],
                "timeout": HOST_TIMEOUT_S,
            },
            matchers={"PostToolUse": "Bash|PowerShell|mcp__.*"},
        ),
        HookFile(
            program=PROGRAMS["codex"],
            user="~/.codex/hooks.json",
            override="CODEX_HOME",
            project=".codex/hooks.json",
            handler=lambda command: {"type": "command", "command": shell_line(command), "timeout": HOST_TIMEOUT_S},
            matchers={"PostToolUse": "Bash|mcp__.*"},
        ),
        HookFile(
            program=PROGRAMS["gemini"],
            user="~/.gemini/settings.json",
            project=".gemini/settings.json",
            handler=lambda command: {
                "name": "commonplace",
                "type": "command",
                "command": shell_line(command),
                "timeout": 1000 * HOST_TIMEOUT_S,
            },
            matchers={"AfterTool": "run_shell_command|mcp_.*"},
            has_comments=True,
        ),
        HookFile(
            program=PROGRAMS["cursor"],
            user="~/.cursor/hooks.json",
            project=".cursor/hooks.json",
            handler=lambda command: {"command": shell_line(command), "timeout": HOST_TIMEOUT_S},
            fixed={"version": 1},
            matchers={"postToolUse": "Shell|MCP:.*"},
            is_nested=False,
        ),
        HookFile(
            program=PROGRAMS["copilot"],
            user="~/.copilot/hooks/commonplace.json",
            override="COPILOT_HOME",
            project=".github/hooks/commonplace.json",
            handler=lambda command: {
                "type": "command",
                "bash": shlex.join(command),
                "powershell": powershell_line(command),
                "timeoutSec": HOST_TIMEOUT_S,
            },
            fixed={"version": 1},
            is_nested=False,
        ),
    )
}


def program_command(*, is_project: bool) -> list[str]:
    """Return the beginning of the hook's command line. A project's file is shared: it names no path of a machine."""
    if is_project:
        return ["commonplace"]
    if CHECKOUT.exists():
        return [sys.executable, str(CHECKOUT)]
    script = Path(sys.executable).with_name("commonplace.exe" if sys.platform == "win32" else "commonplace")
    # -P: otherwise a folder memory_project of the repository that the agent works in would be run instead
    return [str(script)] if script.exists() else [sys.executable, "-P", "-m", "memory_project"]


def plan_install(name: str, *, is_project: bool) -> list[files.FileChange]:
    """Return the changes that put our hooks in, none if they are there. Raises Invalid and Conflict."""
    command = program_command(is_project=is_project)
    if name == "cline":
        return [change for change in cline_scripts(command, is_project=is_project) if change.is_needed]
    file = FILES[name]
    groups = {event: file.group(event, [*command, "hook", event, "--program", name]) for event in file.program.events}
    change = files.plan_edit(file.path(is_project=is_project), lambda text: _installed(file, text, groups))
    return [change] if change.is_needed else []


def plan_uninstall(name: str, *, is_project: bool) -> list[files.FileChange]:
    """Return the changes that take our hooks out. A file of which nothing is left has an empty text."""
    if name == "cline":
        paths = [change.path for change in cline_scripts([], is_project=is_project, is_checked=False)]
        kept = [(path, path.read_text(errors="replace")) for path in paths if path.exists()]
        return [files.FileChange(path, text, "") for path, text in kept if CLINE_MARK in text]
    file = FILES[name]
    path = file.path(is_project=is_project)
    if not path.exists():
        return []
    change = files.plan_edit(path, lambda text: _uninstalled(file, text))
    return [change] if change.is_needed else []


def place_of(name: str, *, is_project: bool) -> Path:
    """Return the file with a program's hooks, or Cline's folder of them."""
    return cline_folder(is_project=is_project) if name == "cline" else FILES[name].path(is_project=is_project)


def installed_plugins() -> list[dict[str, Any]]:
    """Return where Claude Code keeps our plugin, as its own list of plugins says."""
    path = FILES["claude-code"].path(is_project=False).parent / "plugins" / "installed_plugins.json"
    try:
        plugins = json.loads(path.read_bytes())["plugins"]
        places = [place for name in plugins if name.startswith("commonplace@") for place in plugins[name]]
        paths = [str(place["installPath"]) for place in places]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [
        {"program": "claude-code (plugin)", "path": each, "events": list(PROGRAMS["claude-code"].events)}
        for each in paths
    ]


def installed_events(name: str, *, is_project: bool) -> list[str]:
    """Return the events of a program that have our hook. Raises Invalid if the file can't be read."""
    if name == "cline":
        return [change.path.name for change in plan_uninstall(name, is_project=is_project)]
    file = FILES[name]
    before = files.plan_edit(file.path(is_project=is_project), lambda text: text).before
    data = json_text.parse((before or "").removeprefix(files.BOM), comments=file.has_comments)
    return list(dict.fromkeys(place[1] for place in _ours(file, data)))


def _installed(file: HookFile, text: str, groups: Mapping[str, Entry]) -> str:
    data = json_text.parse(text, comments=file.has_comments)
    present = [(place[1], _at(data, place)) for place in _ours(file, data)]
    if present == list(groups.items()):
        return text
    text = _uninstalled(file, text)
    for key, value in (file.fixed or {}).items():
        if key not in json_text.parse(text, comments=file.has_comments):
            text = json_text.put(text, (key,), value)
    for event, group in groups.items():
        text = json_text.append(text, ("hooks", event), group)
    data = json_text.parse(text, comments=file.has_comments)
    if [(place[1], _at(data, place)) for place in _ours(file, data)] != list(groups.items()):
        raise Invalid("is written in a way that can't be edited without changing the rest: edit it by hand")
    return text


def _uninstalled(file: HookFile, text: str) -> str:
    while place := next(_ours(file, json_text.parse(text, comments=file.has_comments)), None):
        text = json_text.remove(text, place)
    data = json_text.parse(text, comments=file.has_comments)
    return "" if data == (file.fixed or {}) else text


def _ours(file: HookFile, data: Any) -> Iterator[Place]:
    """Yield the places of our entries: a whole group, or one handler of a group that somebody has merged it into."""
    if not isinstance(data, dict) or not isinstance(events := data.get("hooks", {}), dict):
        raise Invalid("has another value where an object is expected")
    for event, groups in events.items():
        for position, group in enumerate(groups if isinstance(groups, list) else []):
            place = ("hooks", event, str(position))
            handlers = group.get("hooks") if file.is_nested and isinstance(group, dict) else [group]
            ours = [n for n, each in enumerate(handlers or []) if is_ours(file.program.name, each)]
            if ours and len(ours) == len(handlers or []):
                yield place
            else:
                yield from ((*place, "hooks", str(n)) for n in ours)


def is_ours(name: str, handler: Any) -> bool:
    if not isinstance(handler, dict):
        return False
    line = handler.get("command") or handler.get("bash")
    arguments = handler.get("args")
    if isinstance(line, str) and isinstance(arguments, list):
        line = " ".join([line, *(str(part) for part in arguments)])
    pattern = rf"(?:commonplace|memory_project|manage\.py)(?:\.exe)?[\"']? hook \w+ --program {name}"
    return isinstance(line, str) and bool(re.search(rf"{pattern}\Z", line))


def _at(data: Any, place: Place) -> Any:
    for key in place:
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data


CLINE_MARK = "# Written by `commonplace hook --install cline`."
CLINE_USER = "~/Documents/Cline/Hooks"
CLINE_PROJECT = ".clinerules/hooks"


def cline_folder(*, is_project: bool) -> Path:
    return Path.cwd() / CLINE_PROJECT if is_project else Path(CLINE_USER).expanduser()


def cline_scripts(command: Sequence[str], *, is_project: bool, is_checked: bool = True) -> list[files.FileChange]:
    """Return the scripts that Cline runs, one per event. Raises Conflict if somebody else's is in the way."""
    if sys.platform == "win32":
        raise Invalid("is not known on Windows", field="cline", allowed="on macOS and Linux")
    folder = cline_folder(is_project=is_project)
    changes = []
    for event in PROGRAMS["cline"].events:
        line = shlex.join([*command, "hook", event, "--program", "cline"])
        script = f"#!/bin/sh\n{CLINE_MARK}\nexec {line}\n"
        change = files.plan_edit(folder / event, partial(_replaced_by, script))
        if is_checked and change.before is not None and CLINE_MARK not in change.before:
            raise Conflict(f"{change.path} is another hook. Add this line to it: {line}")
        changes.append(change)
    return changes


def _replaced_by(script: str, text: str) -> str:
    return script


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
