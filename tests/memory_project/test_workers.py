"""Tool calls in worker threads, and clients that disconnect."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import anyio
import pytest
from anyio import CapacityLimiter

from memory_project.mcp.workers import Running, in_thread


def fail() -> None:
    raise ZeroDivisionError("by nought")


def test_an_exception_is_raised_unchanged() -> None:
    async def main() -> None:
        await in_thread(fail, running=Running(), limiter=CapacityLimiter(1))

    with pytest.raises(ZeroDivisionError, match="by nought"):
        anyio.run(main)


def test_a_disconnect_after_the_call_cancels_no_statement_of_another_caller() -> None:
    """Once the call has ended, its connection may already serve another caller."""
    running = Running()
    driver = Mock()
    running._wrappers = [SimpleNamespace(connection=driver)]
    running._cancel_statement()
    assert driver.cancel_safe.call_count == 1
    running._has_ended = True
    running._cancel_statement()
    assert driver.cancel_safe.call_count == 1
