"""Output of `commonplace hook --status`: connection, server, repository, and the last event."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from memory_project.agents.hook_program import connection as connections
from memory_project.agents.hook_program import repository, server, state

TIMEOUT_S = 3.0
ACCOUNT = "me/"


def report() -> dict[str, Any]:
    """Return the state of the hooks in this folder. Asks the server once."""
    connection = connections.load()
    place = repository.repository_of(Path.cwd())
    settings = place.settings
    return {
        "connection": _connection(connection),
        "server": _server(connection),
        "repository": {
            "root": str(place.root) if place.root else None,
            "remote": place.remote,
            "opted_in": settings.is_present and not settings.is_off,
            "off": settings.is_off,
            "persona": settings.persona,
            "entities": list(settings.entities),
            "problems": list(settings.problems),
        },
        "circuit": _circuit(connection),
        "last_event": state.read(state.LAST_EVENT) or None,
        "last_injection": state.read(state.LAST_INJECTION) or None,
    }


def as_text(report: dict[str, Any]) -> str:
    """Return the report as lines for people."""
    lines = [_connection_line(report["connection"]), _server_line(report["server"]), *_places(report.get("installed"))]
    lines += _repository_lines(report["repository"], report["connection"])
    if circuit := report["circuit"]:
        lines.append(f"Circuit: open for {circuit['seconds_left']} s, because the server failed: {circuit['reason']}")
    if event := report["last_event"]:
        lines.append(
            f"Last event: {event.get('at')} {event.get('event')} of {event.get('program')}, {event.get('outcome')}"
            f" ({event.get('milliseconds')} ms)"
        )
    else:
        lines.append("Last event: none")
    if injection := report["last_injection"]:
        ids = ", ".join(injection.get("memory_ids") or []) or "none"
        lines.append(
            f"Last passed on: {injection.get('at')} {injection.get('event')}, {injection.get('characters')} characters,"
            f" {injection.get('tokens')} tokens, {injection.get('milliseconds')} ms, memories: {ids}"
        )
    return "\n".join(lines)


def _connection(connection: connections.HookConnection | None) -> dict[str, Any] | None:
    if connection is None:
        return None
    return {
        "url": connection.url,
        "source": connection.source,
        "capture": connection.capture,
        "encrypted": not connection.is_readable_on_the_way,
        "readable_by_others": connection.is_saved_openly,
    }


def _server(connection: connections.HookConnection | None) -> dict[str, Any] | None:
    if connection is None:
        return None
    started = time.monotonic()
    try:
        account = server.request(connection, ACCOUNT, None, timeout=TIMEOUT_S)
    except connections.ServerFailed as error:
        return {"reached": False, "reason": str(error)}
    milliseconds = round(1000 * (time.monotonic() - started))
    return {"reached": True, "account": account.get("email"), "milliseconds": milliseconds}


def _circuit(connection: connections.HookConnection | None) -> dict[str, Any] | None:
    seconds = state.skipped_for(connection.url) if connection else 0
    return {"seconds_left": round(seconds), "reason": state.read(state.CIRCUIT).get("reason")} if seconds else None


def _connection_line(connection: dict[str, Any] | None) -> str:
    if connection is None:
        return "Connection: none. Run `commonplace hook --connect URL`, or set COMMONPLACE_URL and COMMONPLACE_TOKEN."
    source = connection["source"]
    warning = "" if connection["encrypted"] else ". The token is sent without encryption"
    if connection["readable_by_others"]:
        warning += f". Others on this machine can read the token: run `chmod 600 {source}`"
    return f"Connection: {connection['url']} (from: {source}){warning}"


def _server_line(answer: dict[str, Any] | None) -> str:
    if answer is None:
        return "Server: not asked"
    if answer["reached"]:
        return f"Server: reached as {answer['account']} in {answer['milliseconds']} ms"
    return f"Server: not reached ({answer['reason']})"


def _places(installed: list[dict[str, Any]] | None) -> list[str]:
    if installed is None:
        return []
    if not installed:
        return ["Installed: nowhere. Run `commonplace hook --install PROGRAM`."]
    lines = [f"Installed: {each['program']}, {each['path']}: {', '.join(each['events'])}" for each in installed]
    ways = [each["program"] for each in installed]
    if {"claude-code", "claude-code (plugin)"} <= set(ways):
        lines.append("  Claude Code has the plugin and the hooks: memories arrive twice. Uninstall one of them.")
    return lines


def _repository_lines(place: dict[str, Any], connection: dict[str, Any] | None) -> list[str]:
    if place["root"] is None:
        return ["Repository: none here"]
    captured = bool(place["opted_in"] and connection and connection["capture"])
    said = "opted in" if place["opted_in"] else "not opted in"
    if place["off"]:
        said = "switched Commonplace off"
    collected = "collected" if captured else "not collected"
    line = f"Repository: {place['remote'] or 'without a remote'}, {said}; candidates are {collected}"
    return [line, *(f"  {problem}" for problem in place["problems"])]
