"""Work at the same time in tests: another process, threads, and waiting for an effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

from django.db import connection

from foundation.database import locks

PK = UUID(int=1)
WITHIN_S = 120.0  # a test that passes waits for as long as the effect takes


class OtherProcess(locks._Holder):
    def takes(self) -> bool:
        return self.acquire(f"work {PK.hex}") is not None

    def is_killed(self) -> None:
        """End as a killed process does: the connection closes, the row stays."""
        self.is_unused.set()
        if self.connection is not None:
            self.connection.close()


def until(condition: Callable[[], Any], within_s: float = WITHIN_S) -> bool:
    """Wait until the condition holds. Returns whether it did within these seconds."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def run_concurrently(*operations: Callable[[], Any]) -> list[Any]:
    """Run the operations concurrently, each in a thread with its own connection. Return results or exceptions."""
    barrier = threading.Barrier(len(operations))

    def run(operation: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return operation()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(operations)) as pool:
        return list(pool.map(run, operations))
