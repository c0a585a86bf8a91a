"""Entry point of the command line, as `commonplace` and `manage.py`."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent / "manage.py"


def main() -> None:
    if is_event_of_hook(sys.argv[1:]):
        from memory_project.hooks import hook  # noqa: PLC0415 - a hook must start without Django, for each prompt

        hook.run(sys.argv[2:])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_of_command(sys.argv[1:]))
    # NumPy multiplies small arrays here, and starting threads for them takes longer than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # imports create several 100,000 objects, none of them garbage; apps.py enables gc again
    try:
        # imported here so that a missing Django gives the hint below
        from memories.database import identity  # noqa: PLC0415
        from memory_project import command_line  # noqa: PLC0415
    except ImportError:
        sys.exit("Django is not installed here. Run `make install` first, then `.venv/bin/python manage.py …`.")
    service = service_of_command(sys.argv[1:2])
    if service:
        identity.run_process_as(service)
    # `up` hands its environment on to the servers, and `doctor` judges what they will use
    if service == "command" and sys.argv[1:2] not in (["up"], ["doctor"]):
        # without a pool, a database that is away is reported at once and with the reason, instead of after 15 seconds
        os.environ.setdefault("DATABASE_POOL_SIZE", "0")
    command_line.run(sys.argv)


def is_event_of_hook(arguments: list[str]) -> bool:
    """Return whether a program hands over an event. A person at a terminal gets the command's help instead."""
    is_event = arguments[:1] == ["hook"] and arguments[1:] != [] and not arguments[1].startswith("-")
    return is_event and not (sys.stdin and sys.stdin.isatty())


def settings_of_command(arguments: list[str]) -> str:
    """Return the settings module. A server over stdio, which each client starts, leaves out what it has no use for."""
    is_over_http = any(name == "http" or name.endswith("=http") for name in arguments)
    is_stdio = arguments[:1] == ["mcp"] and not is_over_http
    return "memory_project.stdio_settings" if is_stdio else "memory_project.settings"


def service_of_command(names: list[str]) -> str:
    """Return the service that a command's statements run under. The servers have none: each request has an identity."""
    if names in (["serve"], ["mcp"]):
        return ""
    return "worker" if names == ["qcluster"] else "command"


def program() -> list[str]:
    """Return the beginning of the command line for running a management command in another process."""
    return [sys.executable, *([str(CHECKOUT)] if CHECKOUT.exists() else ["-m", "memory_project"])]


if __name__ == "__main__":
    main()
