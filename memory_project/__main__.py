"""Entry point of the command line, as `commonplace` and `manage.py`."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

STDIO_SETTINGS = "memory_project.stdio_settings"
CHECKOUT = Path(__file__).resolve().parent.parent / "manage.py"


def main() -> None:
    if is_event_of_hook(sys.argv[1:]):
        from memory_project.agents.hook_program import hook  # noqa: PLC0415 - a hook must start without Django, for each prompt

        hook.run(sys.argv[2:])
    take_address(sys.argv[1:])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", settings_of_command(sys.argv[1:]))
    # NumPy multiplies small arrays here, and starting threads for them takes longer than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # imports create several 100,000 objects, none of them garbage; apps.py enables gc again
    try:
        # imported here so that a missing Django gives the hint below
        from foundation.database import identity  # noqa: PLC0415
        from memory_project.management import command_line  # noqa: PLC0415
    except ImportError:
        sys.exit("Django is not installed here. Run `make install` first, then `.venv/bin/python manage.py …`.")
    service = service_of_command(sys.argv[1:2])
    if service:
        identity.run_process_as(service)
    # `up` hands its environment on to the servers, and `doctor` judges what they will use
    if service == "command" and sys.argv[1:2] not in (["up"], ["doctor"]):
        # without a pool, a database that is away is reported at once and with the reason, instead of after 15 seconds
        os.environ.setdefault("DATABASE_POOL_SIZE", "0")
    if settings_of_command(sys.argv[1:]) == STDIO_SETTINGS:
        end_process_after(partial(command_line.run, sys.argv))
    command_line.run(sys.argv)


def end_process_after(serve: Callable[[], None]) -> NoReturn:
    """Run a server over stdio, and end the process at once when its client goes away.

    Python's own exit would wait for a model that is being loaded. A closed pipe and SIGTERM are how clients say that
    they have finished.
    """
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    code = 0
    try:
        serve()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        if isinstance(stop.code, str):
            sys.stderr.write(f"{stop.code}\n")
    except BaseException as error:
        if not is_normal_end(error):
            traceback.print_exc()
            code = 1
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def is_normal_end(error: BaseException) -> bool:
    """Return whether an exception only says that the client has gone, or that somebody pressed Ctrl-C."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_normal_end, error.exceptions))
    return isinstance(error, BrokenPipeError | KeyboardInterrupt) or type(error).__name__ == "BrokenResourceError"


def is_event_of_hook(arguments: list[str]) -> bool:
    """Return whether a program hands over an event. A person at a terminal gets the command's help instead."""
    is_event = arguments[:1] == ["hook"] and arguments[1:] != [] and not arguments[1].startswith("-")
    return is_event and not (sys.stdin and sys.stdin.isatty())


def settings_of_command(arguments: list[str]) -> str:
    """Return the settings module. A server over stdio, which each client starts, leaves out what it has no use for."""
    is_over_http = any(name == "http" or name.endswith("=http") for name in arguments)
    is_stdio = arguments[:1] == ["mcp"] and not is_over_http
    return STDIO_SETTINGS if is_stdio else "memory_project.settings"


def service_of_command(names: list[str]) -> str:
    """Return the service that a command's statements run under. The servers have none: each request has an identity."""
    if names in (["serve"], ["mcp"]):
        return ""
    return "worker" if names == ["qcluster"] else "command"


def take_address(arguments: list[str]) -> None:
    """Let the settings know the address that a server is started with, so that all it states follows its options."""
    if arguments[:1] not in (["up"], ["serve"]):
        return
    for option, variable in (("--port", "COMMONPLACE_PORT"), ("--host", "COMMONPLACE_HOST")):
        values = [value for name, value in pairwise([*arguments, ""]) if name == option]
        values += [argument.partition("=")[2] for argument in arguments if argument.startswith(f"{option}=")]
        if values and (option == "--host" or is_port(values[-1])):  # the command refuses others
            os.environ[variable] = values[-1]


def is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 65536


def spoken(arguments: str) -> str:
    """Return the command line that a person would type, as this program was started."""
    if os.environ.get("COMMONPLACE_IN_CONTAINER"):
        return f"docker compose exec web commonplace {arguments}"
    if CHECKOUT.exists():
        return f".venv/bin/python manage.py {arguments}"
    return f"commonplace {arguments}"


def program() -> list[str]:
    """Return the beginning of the command line for running a management command in another process."""
    return [sys.executable, *([str(CHECKOUT)] if CHECKOUT.exists() else ["-m", "memory_project"])]


if __name__ == "__main__":
    main()
