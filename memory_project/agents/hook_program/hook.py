"""One event of a program's hook: read it from standard input, ask the server, print what the program accepts.

Nothing that goes wrong may disturb the program: it waits for a bounded time, the exit code is always 0, and without an
answer there is no output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from foundation.operations.masking import masked
from memory_project.agents.hook_program import connection as connections
from memory_project.agents.hook_program import framing, gates, programs, repository, state

MAX_INPUT_BYTES = 8_000_000
MAX_PROMPT = 4_000
MAX_STATEMENT = 10_000
MAX_SESSION = 200
MAX_CANDIDATES = 10
MAX_EVIDENCE = 500
MAX_IDS = 50
# Seconds from the start of this module. A person waits for a prompt; Claude Code ends a SessionEnd hook after 1.5 s.
DEADLINES = {programs.START: 2.0, programs.PROMPT: 0.9, programs.TOOL: 0.9, programs.END: 0.9}
RECORDING_S = 0.08
# A failure that isn't recorded makes the next event wait for the same server, so it may take longer: with the deadline,
# still less than the 1.5 s.
CIRCUIT_S = 0.3
# The folder that the session was started in. The event's folder changes when the agent does.
PROJECT_VARIABLES = ("CLAUDE_PROJECT_DIR", "GEMINI_PROJECT_DIR")

T = TypeVar("T")
STARTED = time.monotonic()


class Skipped(Exception):
    """There is nothing to ask for. The text is for `--status`."""


@dataclass
class HookAnswer:
    text: str = ""
    memory_ids: Sequence[str] = ()
    tokens: int = 0
    outcome: str = "nothing to say"


@dataclass
class HookProgress:
    """How far an event has come, for the case that the deadline ends it."""

    url: str = ""  # of the server, once it is asked


def run(arguments: Sequence[str]) -> None:
    """Handle `EVENT [--program NAME]` and end the process with exit code 0."""
    try:
        event, name = _options(arguments)
        program = programs.PROGRAMS.get(name)
        kind = program.events.get(event) if program else None
        if program and kind:
            _run(program, event, kind)
    finally:
        # a thread that still waits for input or for the server must not keep the process alive
        os._exit(0)


def _options(arguments: Sequence[str]) -> tuple[str, str]:
    event, *rest = arguments
    name = rest[1] if len(rest) > 1 and rest[0] == "--program" else programs.DEFAULT_PROGRAM
    return event, name


def _run(program: programs.Program, event: str, kind: str) -> None:
    progress = HookProgress()
    answer = _bounded(lambda: _answer(program, event, kind, progress), _left(kind))
    if answer is None:
        answer = HookAnswer(outcome="failed: the deadline passed")
        if progress.url:
            _bounded(lambda: state.open_circuit(progress.url, "did not answer in time"), CIRCUIT_S)
    if answer.text:
        _print(program.answer(event, answer.text))
    _bounded(lambda: _record(program, event, answer), RECORDING_S)


def _left(kind: str) -> float:
    return max(0.05, STARTED + DEADLINES[kind] - time.monotonic())


def _bounded(function: Callable[[], T], seconds: float) -> T | None:
    """Return the function's result, or None if it takes longer. It then goes on in a thread that nobody waits for."""
    results: list[T] = []

    def work() -> None:
        with suppress(Exception):  # a thread's traceback would go to standard error
            results.append(function())

    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else None


def _answer(program: programs.Program, event: str, kind: str, progress: HookProgress) -> HookAnswer:
    try:
        payload = _read_input()
        given = program.read(event, kind, payload)
        return _ask(program, replace(given, prompt=framing.without_blocks(given.prompt).strip()), progress)
    except Skipped as reason:
        return HookAnswer(outcome=f"skipped: {reason}")
    except connections.ServerFailed as error:
        if error.is_down:
            state.open_circuit(progress.url, str(error))
        return HookAnswer(outcome=f"failed: {error}")
    except Exception as error:  # a defect of ours must not reach the program; --status shows it
        return HookAnswer(outcome=f"failed: {type(error).__name__}: {error}"[:300])


def _read_input() -> dict[str, Any]:
    content = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(content) > MAX_INPUT_BYTES:
        raise Skipped("the input is too large")
    try:
        payload = json.loads(content)
    except (ValueError, RecursionError):
        raise Skipped("the input is not JSON") from None
    if not isinstance(payload, dict):
        raise Skipped("the input is not an object")
    return payload


def _ask(program: programs.Program, event: programs.ProgramEvent, progress: HookProgress) -> HookAnswer:
    _refuse_early(event)
    connection = connections.load()
    if connection is None:
        raise Skipped("there is no connection")
    seconds = state.skipped_for(connection.url)
    # nobody waits for the end of a session, and its candidates would be lost
    if seconds and event.kind != programs.END:
        raise Skipped(f"the server failed; it is asked again in {seconds:.0f} s")
    place = _place(event)
    # a program that names no session runs one at a time
    session = event.session[:MAX_SESSION] or f"{program.name} {os.getppid()}"
    body = {"session": session, "program": program.name, "repository": place.remote}
    body |= _content(event, connection, place.settings)
    from memory_project.agents.hook_program import server  # noqa: PLC0415 - takes a third of the start, and most events end earlier

    progress.url = connection.url
    given = server.request(connection, f"hooks/{event.kind}/", body, timeout=_left(event.kind))
    return _received(event, given)


def _place(event: programs.ProgramEvent) -> repository.Repository:
    """Return the repository of the session. Raises Skipped if it, or the one the agent is in now, says off."""
    now = event.folder or os.getcwd()
    project = next((folder for name in PROJECT_VARIABLES if (folder := os.environ.get(name))), now)
    places = [repository.repository_of(Path(folder)) for folder in dict.fromkeys((project, now))]
    if any(place.settings.is_off for place in places):
        raise Skipped("the repository has switched Commonplace off")
    return places[0]


def _refuse_early(event: programs.ProgramEvent) -> None:
    """Raise Skipped for an event that needs neither a connection nor a repository to be refused."""
    if event.kind == programs.PROMPT and event.is_by_agent:
        raise Skipped("no person wrote it")
    if event.kind == programs.PROMPT and (reason := gates.reason_to_skip(event.prompt)):
        raise Skipped(reason)
    if event.kind == programs.TOOL and not gates.statement_in(event.tool, event.tool_input):
        raise Skipped("not about a database")


def _content(
    event: programs.ProgramEvent, connection: connections.HookConnection, settings: repository.RepositorySettings
) -> dict[str, Any]:
    """Return the part of the body that is the event's own."""
    if event.kind == programs.END:
        return {"candidates": _candidates(event, connection, settings)}
    if event.kind == programs.TOOL:
        statement = gates.statement_in(event.tool, event.tool_input)
        return {"tool": event.tool[:200], "statement": _sendable(statement, MAX_STATEMENT)}
    entities = list(settings.entities)
    if event.kind == programs.PROMPT:
        return {"entities": entities, "prompt": _sendable(event.prompt, MAX_PROMPT)}
    return {"source": event.source[:40], "entities": entities, "persona": settings.persona}


def _sendable(text: str, limit: int) -> str:
    # masked before it is cut: half of a secret has no form by which it could be told
    return masked(text[: 2 * limit])[:limit]


def _candidates(
    event: programs.ProgramEvent, connection: connections.HookConnection, settings: repository.RepositorySettings
) -> list[dict[str, Any]]:
    """Return the candidates of the session. Raises Skipped unless both the person and the repository want them."""
    if not connection.capture:
        raise Skipped("you have not switched capture on")
    if not settings.is_present:
        raise Skipped(f"the repository has no {repository.FILE}")
    # imported here because the other events do without
    from memory_project.agents.hook_program.candidates import find_candidates  # noqa: PLC0415
    from memory_project.agents.hook_program.transcripts import read_transcript  # noqa: PLC0415

    found = find_candidates(read_transcript(Path(event.transcript))) if event.transcript else []
    if not found:
        raise Skipped("no candidates")
    candidates = [asdict(candidate) for candidate in found[:MAX_CANDIDATES]]
    return [
        {**each, "text": masked(each["text"]), "evidence": masked(each["evidence"])[:MAX_EVIDENCE]}
        for each in candidates
    ]


def _received(event: programs.ProgramEvent, given: dict[str, Any]) -> HookAnswer:
    if event.kind == programs.END:
        return HookAnswer(outcome=f"proposed: {given.get('staged')} new, {given.get('known')} known")
    text = given.get("text")
    ids = given.get("memory_ids")
    tokens = given.get("tokens")
    if not isinstance(text, str):
        raise connections.ServerFailed("the answer has no text")
    block = framing.framed(text)
    if not block:
        return HookAnswer()
    return HookAnswer(
        text=block,
        memory_ids=[str(each)[:100] for each in ids[:MAX_IDS]] if isinstance(ids, list) else [],
        tokens=tokens if isinstance(tokens, int) else 0,
        outcome="passed on",
    )


def _print(answer: dict[str, Any]) -> None:
    # ASCII alone: the program's encoding is unknown
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _record(program: programs.Program, event: str, answer: HookAnswer) -> None:
    values: dict[str, Any] = {
        "event": event,
        "program": program.name,
        "milliseconds": round(1000 * (time.monotonic() - STARTED)),
    }
    state.write(state.LAST_EVENT, **values, outcome=answer.outcome)
    if answer.text:
        injection = {"memory_ids": list(answer.memory_ids), "characters": len(answer.text), "tokens": answer.tokens}
        state.write(state.LAST_INJECTION, **values, **injection)
