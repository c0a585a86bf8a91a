"""Runs the program of a stdio upstream and passes its messages on, within limits.

    python relay.py MAX_LINE_BYTES COMMAND [ARGUMENT …]

The SDK's client reads a line of any length into memory. This process ends the program instead, if one line is longer
than allowed or if it writes more than FLOOD lines of that length within FLOOD_S seconds. Only the standard library is
imported, so that it starts fast.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

CHUNK = 65_536
FLOOD = 10  # times the size of a line
FLOOD_S = 10.0
MAX_ERRORS = 20_000  # bytes of the program's stderr that are passed on
TOO_MUCH = 65  # exit status


def main() -> int:
    limit = int(sys.argv[1])
    command = sys.argv[2:]
    try:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return 127
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    threading.Thread(target=_pass_input, args=(child,), daemon=True).start()
    threading.Thread(target=_pass_errors, args=(child,), daemon=True).start()
    if problem := _pass_output(child, limit):
        print(problem, file=sys.stderr)
        child.kill()
        child.wait()
        return TOO_MUCH
    return child.wait()


def _pass_input(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin is not None
    try:
        while data := os.read(0, CHUNK):
            child.stdin.write(data)
            child.stdin.flush()
        child.stdin.close()
    except (BrokenPipeError, ValueError):
        pass


def _pass_errors(child: subprocess.Popen[bytes]) -> None:
    assert child.stderr is not None
    room = MAX_ERRORS
    while data := os.read(child.stderr.fileno(), CHUNK):
        os.write(2, data[:room])
        room -= min(len(data), room)


def _pass_output(child: subprocess.Popen[bytes], limit: int) -> str:
    """Pass on stdout until it ends. Return why it was cut off, or ""."""
    assert child.stdout is not None
    line_bytes = 0
    since = time.monotonic()
    passed = 0
    while data := os.read(child.stdout.fileno(), CHUNK):
        last_break = data.rfind(b"\n")
        line_bytes = line_bytes + len(data) if last_break < 0 else len(data) - last_break - 1
        if line_bytes > limit:
            return f"sent a message of more than {limit} bytes"
        if time.monotonic() - since > FLOOD_S:
            since = time.monotonic()
            passed = 0
        passed += len(data)
        if passed > FLOOD * limit:
            return f"sent more than {FLOOD * limit} bytes within {FLOOD_S:.0f} s"
        try:
            _write_all(data)
        except BrokenPipeError:
            return ""
    return ""


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    sys.exit(main())
