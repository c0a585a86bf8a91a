"""Stopping of the web server without cutting calls.

At the first SIGTERM or SIGINT the server reports that it is not ready, and goes on accepting requests for
DRAIN_DELAY_S, until load balancers have noticed. Then it closes its socket, and running calls have DRAIN_TIMEOUT_S to
end. A second signal of the same kind ends the process at once.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import django
from django.conf import settings
from uvicorn import Config
from uvicorn.supervisors import Multiprocess

from memory_project.web import draining

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def drained_at_signals() -> Iterator[None]:
    """Delay what the server does at a signal. Must be entered in the lifespan, when uvicorn has set its handlers.

    Does nothing outside of the main thread, where no signals arrive.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        if number in received:
            end_at_once(number)
        received.append(number)
        if len(received) > 1:  # Ctrl-C reaches this process and its parent, which sends SIGTERM as well
            return
        draining.start()
        stop = handlers[number]
        if callable(stop):
            loop.call_soon_threadsafe(loop.call_later, settings.DRAIN_DELAY_S, stop, number, None)

    for number in handlers:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@asynccontextmanager
async def drained(running: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
    async with running:
        with drained_at_signals():
            yield


def end_at_once(number: int) -> None:
    """End this process as the signal does by default, without waiting for its threads."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


class ConfigOfChild(Config):
    """uvicorn's settings, which a new process unpickles before it has loaded Django."""

    def load(self) -> None:
        django.setup()  # our HTTP protocol imports models, and uvicorn loads it before the application
        super().load()


class Processes(Multiprocess):
    """uvicorn's parent process, which hands a second signal on. uvicorn's own ignores it."""

    def __init__(self, application: str, *, http: type[asyncio.Protocol], **options: Any) -> None:
        config = ConfigOfChild(application, http=f"{http.__module__}:{http.__qualname__}", **options)
        super().__init__(config, sockets=[config.bind_socket()])

    def terminate_all(self) -> None:
        super().terminate_all()
        for listening in self.sockets:  # otherwise connections would wait here for nobody, once the children stop
            listening.close()
        for number in SIGNALS:
            signal.signal(number, self.end_all_at_once)

    def end_all_at_once(self, number: int, frame: FrameType | None) -> None:
        for process in self.processes:
            process.process.kill()
        end_at_once(number)
