"""LISTEN/NOTIFY of PostgreSQL: short messages between processes, which are sent when a transaction commits.

    subscription = pg_notify.listen("caller_access", on_message, on_gap)   # in a server process, at its start
    subscription.is_connected                                                  # whether messages arrive now
    subscription.close()                                                       # at its end

    pg_notify.notify("caller_access", "payload")                           # in the transaction of the change

Messages can be lost while the connection is down, and nobody is told which. What a process derives from messages is
therefore valid only while `is_connected`, and has to be dropped in `on_gap`, which is called when the connection is
lost and again when messages arrive again.

One thread and one connection per process serve all channels. They exist while there is a subscription, so that
short-lived commands have none. The connection goes to PostgreSQL directly: through a pooler that assigns connections
per transaction, messages would be lost. A message from a second connection proves, after each connect, that messages
arrive; until then, `is_connected` is false.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from django.db import connection
from psycopg import sql

from foundation.database.locks import DIRECT

log = logging.getLogger(__name__)

FIRST_PAUSE_S, MAX_PAUSE_S = 0.2, 10.0  # between attempts to connect
PROOF_WITHIN_S = 5.0
PROOF = "commonplace_listener_proof"  # channel
# A connection whose other end is gone without a word is noticed after about 5 + 3 * 2 seconds.
KEEPALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "connect_timeout": 3}

OnMessage = Callable[[str], None]
OnGap = Callable[[], None]

_guard = threading.Lock()
_listener: Listener | None = None  # of this process


def notify(channel: str, payload: str = "") -> None:
    """Send a message when the current transaction commits. `payload` has fewer than 8,000 bytes.

    Equal messages of one transaction arrive once.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [channel, payload])


@dataclass(eq=False)
class Subscriber:
    """The callbacks of one subscriber. They are called in the listener's thread and must return soon."""

    channel: str
    on_message: OnMessage
    on_gap: OnGap
    _listener: Listener
    _connects: int = 0  # number of the connect since which messages arrive; 0: they don't

    @property
    def is_connected(self) -> bool:
        return self._connects != 0 and self._connects == self._listener.connects

    def close(self) -> None:
        self._listener.remove(self)


def listen(channel: str, on_message: OnMessage, on_gap: OnGap = lambda: None) -> Subscriber:
    """Call `on_message` with the payload of each message on a channel, from soon after this call on."""
    global _listener
    with _guard:
        # After a fork, the thread and the connection belong to the parent process.
        if _listener is None or _listener.has_ended or _listener.pid != os.getpid():
            _listener = Listener()
        return _listener.add(channel, on_message, on_gap)


@dataclass(eq=False)
class Listener:
    """The thread and its connection, which connects again after growing pauses. It ends with its last subscription."""

    pid: int = field(default_factory=os.getpid)
    connects: int = 0  # number of the present connect; 0 while there is no connection
    _last_connect: int = 0
    has_ended: bool = False
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _subscriptions: list[Subscriber] = field(default_factory=list)
    _thread: threading.Thread | None = None
    _wake: socket.socket | None = None  # a byte makes the thread look at the subscriptions, and closing it ends it

    def add(self, channel: str, on_message: OnMessage, on_gap: OnGap) -> Subscriber:
        with self._guard:
            subscription = Subscriber(channel, on_message, on_gap, self)
            self._subscriptions.append(subscription)
            if self._thread is None:
                self._wake, woken = socket.socketpair()
                self._thread = threading.Thread(target=self._run, args=[woken], name="pg_notify", daemon=True)
                self._thread.start()
            elif self._wake is not None:
                self._wake.send(b".")
        return subscription

    def remove(self, subscription: Subscriber) -> None:
        """End a subscription, and with the last one the thread and its connection."""
        with self._guard:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)
            subscription._connects = 0
            if self._subscriptions or self.has_ended or self._wake is None:
                return
            self.has_ended = True
            self._wake.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(PROOF_WITHIN_S)

    def _run(self, woken: socket.socket) -> None:
        pause_s = FIRST_PAUSE_S
        is_first = True  # a database that is down shall be in the log once
        with woken:
            woken.setblocking(False)
            while True:
                try:
                    self._serve(woken)
                    return
                except psycopg.Error as error:
                    was_connected = self.connects != 0
                    self.connects = 0
                    self._tell_gap()
                    if was_connected or is_first:
                        log.warning("no messages from other processes: %s", str(error).strip().partition("\n")[0])
                    is_first = False
                    pause_s = FIRST_PAUSE_S if was_connected else min(pause_s * 2, MAX_PAUSE_S)
                if _has_ended(woken, pause_s):
                    return

    def _serve(self, woken: socket.socket) -> None:
        """Connect and pass on messages until the last subscription is closed. Raises psycopg.Error."""
        parameters = direct_parameters()
        with psycopg.connect(**parameters, autocommit=True) as raw, selectors.DefaultSelector() as selector:
            _prove(raw, parameters)
            selector.register(raw.fileno(), selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            listened: set[str] = set()
            self._last_connect += 1
            self.connects = self._last_connect
            while True:
                self._listen_to_new_channels(raw, listened)
                for message in raw.notifies(timeout=0):
                    self._pass_on(message.channel, message.payload)
                ready = [key.fileobj for key, _ in selector.select()]
                if woken in ready and _has_ended(woken, 0):
                    return

    def _listen_to_new_channels(self, raw: psycopg.Connection[Any], listened: set[str]) -> None:
        with self._guard:
            new = [entry for entry in self._subscriptions if entry._connects != self.connects]
        for channel in {entry.channel for entry in new} - listened:
            raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            listened.add(channel)
        for entry in new:
            entry._connects = self.connects
            _call(entry.on_gap)

    def _pass_on(self, channel: str, payload: str) -> None:
        with self._guard:
            receivers = [entry for entry in self._subscriptions if entry.channel == channel]
        for entry in receivers:
            _call(entry.on_message, payload)

    def _tell_gap(self) -> None:
        with self._guard:
            affected = [entry for entry in self._subscriptions if entry._connects]
            for entry in affected:
                entry._connects = 0
        for entry in affected:
            _call(entry.on_gap)


def direct_parameters() -> dict[str, Any]:
    """Return the parameters of a connection that no pooler stands in."""
    known = connection.get_connection_params()
    return {
        "application_name": "commonplace listener",
        **KEEPALIVE,
        **{name: known[name] for name in DIRECT if name in known},
    }


def _prove(raw: psycopg.Connection[Any], parameters: dict[str, Any]) -> None:
    """Raise OperationalError unless a message of a second connection arrives."""
    payload = uuid4().hex
    deadline = time.monotonic() + PROOF_WITHIN_S
    raw.execute(sql.SQL("LISTEN {}").format(sql.Identifier(PROOF)))
    with psycopg.connect(**parameters, autocommit=True) as other:
        other.execute("SELECT pg_notify(%s, %s)", [PROOF, payload])
    while (remaining := deadline - time.monotonic()) > 0:
        if any(message.payload == payload for message in raw.notifies(timeout=remaining, stop_after=1)):
            raw.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(PROOF)))
            return
    raise psycopg.OperationalError("LISTEN receives nothing: is a pooler between this process and PostgreSQL?")


def _has_ended(woken: socket.socket, wait_s: float) -> bool:
    """Wait, and return whether the last subscription has been closed meanwhile."""
    with selectors.DefaultSelector() as selector:
        selector.register(woken, selectors.EVENT_READ)
        deadline = time.monotonic() + wait_s
        while selector.select(max(deadline - time.monotonic(), 0.0)):
            if not woken.recv(4096):
                return True
    return False


def _call(callback: Callable[..., None], *arguments: str) -> None:
    try:
        callback(*arguments)
    except Exception:  # one subscriber must not end the messages of the others
        log.exception("a subscriber could not handle a message")
