"""A background task whose runs can be counted from outside of the workers."""

from __future__ import annotations

import os
import time


def note(file: str, name: str) -> None:
    time.sleep(0.1)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{name}\n".encode())
    os.close(handle)
