"""A call in its worker thread, and a client that goes away."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import anyio
import pytest
from anyio import CapacityLimiter

from memory_project.mcp.workers import Running, in_thread


def fail() -> None:
    raise ZeroDivisionError("by nought")


def test_a_fault_arrives_as_it_was_raised() -> None:
    async def main() -> None:
        await in_thread(fail, running=Running(), limiter=CapacityLimiter(1))

    with pytest.raises(ZeroDivisionError, match="by nought"):
        anyio.run(main)


def test_the_statement_of_whoever_has_the_connection_next_goes_on() -> None:
    """The client leaves while the call ends: its connection may be somebody else's by now."""
    running = Running()
    driver = Mock()
    running._wrapper = SimpleNamespace(connection=driver)
    running._cancel_statement()
    assert driver.cancel_safe.call_count == 1
    running._has_ended = True
    running._cancel_statement()
    assert driver.cancel_safe.call_count == 1
