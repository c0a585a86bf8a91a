"""Admission of requests, before their bodies are parsed and before they occupy a thread.

Requests with a valid token or session wait in the queue of people, under their person. All others wait in a small queue
of their own, under their address, so that they never take the turns of signed-in people.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread
from django.conf import settings
from django.http import parse_cookie
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foundation.database import connections
from foundation.operations.errors import DomainError
from foundation.work.fair_queue import TURN_KEY, FairQueue, QueueFull, QueueTurn, queue_full
from memory_project.operating.observability import process_metrics
from memory_project.web.bearer import bearer
from memory_project.web.client_address import ClientAddress, sender_of
from memory_project.web.cross_origin import CrossOrigin
from memory_project.web.probes import Probes
from memory_project.web.refusals import challenge, is_for_programs, is_mcp, refuse
from memory_project.web.request_ids import RequestIds
from memory_project.web.request_limits import BoundedBody, LimitBody, RequestRefused
from memory_project.web.retry_after import RetryAfter
from memory_project.web.strict_transport import StrictTransport

log = logging.getLogger(__name__)

OwnerOf = Callable[[str, str], str]  # token, session → person

STRANGERS_AT_ONCE, STRANGERS_WAITING = 4, 32  # per address
STRANGERS_IN_ALL = 8  # from all addresses, in each process
STRANGER_PACE_S = 0.1  # minimum duration of a stranger's turn: at most 40 requests a second from one address
STRANGER_TURN_S = 15.0  # after this time, others go on, because the client may be one that does not read its response
STRANGER_BODY_BYTES = 100_000  # forms of people who are not signed in are small
STRANGER_BODY_S = 10.0
KNOWN_FOR_S = 60.0
MAX_KNOWN = 20_000
LOOK_UPS_AT_ONCE = 2
MAX_SESSION_KEY = 40  # characters, of Django's column
REFUSALS_PER_S = 50  # per sender; faster clients get their refusals later, because each one costs time
MAX_PAUSE_S = 10.0
RETRY_AFTER_S = 2
LOGGED_EVERY_S = 60.0
UNKNOWN_TOKEN = (
    "this token is unknown, expired or revoked: create one on the Connect page or with the command `createtoken EMAIL`"
)


def protected(app: ASGIApp, *, owner_of: OwnerOf) -> ASGIApp:
    """Return the application with everything that stands between it and the network.

    `owner_of` returns the primary key of the person whose token or session it is, or "" if it is not valid.
    """
    admission = Admission(LimitBody(app), owner_of)
    process_metrics.watch_queues(people=admission.people, strangers=admission.strangers)
    return ClientAddress(Probes(RequestIds(RetryAfter(StrictTransport(CrossOrigin(admission))))))


class Recognition:
    """Remembers whose token or session it is for KNOWN_FOR_S. Unknown ones are looked up each time."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()  # person and time by credential

    def remembered(self, key: str) -> str:
        """Return the person, or "" if the credential has to be looked up."""
        person, at = self._known.get(key, ("", 0.0))
        return person if time.monotonic() - at < KNOWN_FOR_S else ""

    def look_up(self, key: str, find: Callable[[], str]) -> str:
        person = find()
        self._known.pop(key, None)
        if person:
            self._known[key] = (person, time.monotonic())
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return person


class Admission:
    def __init__(self, app: ASGIApp, owner_of: OwnerOf) -> None:
        self.app = app
        self._owner_of = owner_of
        self.people = FairQueue(
            at_once=settings.CALLS_AT_ONCE, in_all=settings.CALLS_IN_ALL, waiting=settings.CALLS_WAITING
        )
        self.strangers = FairQueue(
            at_once=STRANGERS_AT_ONCE, in_all=STRANGERS_IN_ALL, waiting=STRANGERS_WAITING, pace_s=STRANGER_PACE_S
        )
        self._recognition = Recognition()
        self._look_ups: CapacityLimiter | None = None  # created within the event loop
        self._refusing: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        token, session = credentials(scope)
        try:
            person = await self._person(token, session)
        except DomainError as error:
            return await refuse(scope, send, error.status, error.message, code=error.code)
        arriving = Arriving(receive)
        try:
            if not person:
                await arriving.read(scope)
            turn = await self._turn(scope, person, arriving)
        except RequestRefused as refused:
            return await refuse(scope, send, refused.status, refused.message, headers={"connection": "close"})
        except QueueFull:
            return await self._refuse(scope, send, person)
        if turn is None:
            return
        if not person:
            asyncio.get_running_loop().call_later(STRANGER_TURN_S, turn.end)
        try:
            if token and not person:
                header = {"www-authenticate": challenge(scope)}
                return await refuse(scope, send, 401, UNKNOWN_TOKEN, code="forbidden", headers=header)
            await self.app({**scope, TURN_KEY: turn}, arriving.receive, send)
        finally:
            turn.end()

    async def _person(self, token: str, session: str) -> str:
        """Return the person whose token or session it is, or "". Raises a DomainError if the database is away."""
        if not token and not session:
            return ""
        key = f"token {token}" if token else f"session {session}"
        if person := self._recognition.remembered(key):
            return person
        if self._look_ups is None:
            self._look_ups = CapacityLimiter(LOOK_UPS_AT_ONCE)

        def look_up() -> str:
            with connections.session():
                return self._recognition.look_up(key, lambda: self._owner_of(token, session))

        return await to_thread.run_sync(look_up, limiter=self._look_ups)

    async def _turn(self, scope: Scope, person: str, arriving: Arriving) -> QueueTurn | None:
        """Wait for the request's turn. Returns None if the client disconnects meanwhile. Raises QueueFull."""
        queue = self.people if person else self.strangers
        # pages go first, so that people can use their browser while their agents have calls waiting
        taking = asyncio.ensure_future(queue.take(_sender(scope, person), is_urgent=not is_for_programs(scope["path"])))
        gone = asyncio.ensure_future(arriving.gone())
        try:
            await asyncio.wait({taking, gone}, return_when=asyncio.FIRST_COMPLETED)
            return taking.result() if taking.done() else None
        finally:
            taking.cancel()
            gone.cancel()
            await asyncio.wait({taking, gone})  # nothing may receive beside the application

    async def _refuse(self, scope: Scope, send: Send, person: str) -> None:
        process_metrics.count_refusal()
        sender = _sender(scope, person)
        now = time.monotonic()
        if now - self._logged_at.get(sender, -LOGGED_EVERY_S) >= LOGGED_EVERY_S:
            self._logged_at = {name: at for name, at in self._logged_at.items() if now - at < LOGGED_EVERY_S}
            self._logged_at[sender] = now
            log.warning("refusing requests of %s, because too many are waiting", sender)
        self._refusing[sender] += 1
        try:
            await asyncio.sleep(min(self._refusing[sender] / REFUSALS_PER_S, MAX_PAUSE_S))
        finally:
            self._refusing[sender] -= 1
            if not self._refusing[sender]:
                del self._refusing[sender]
        message = queue_full() if person else "Too many requests are arriving from your network. Try again soon."
        await refuse(scope, send, 429, message, headers={"retry-after": str(RETRY_AFTER_S)})


def credentials(scope: Scope) -> tuple[str, str]:
    """Return the bearer token and the session key that authentication will use for this path."""
    headers = Headers(scope=scope)
    path = scope["path"]
    token = bearer(headers.get("authorization", "")) if is_for_programs(path) else ""
    if token or is_mcp(path):
        return token, ""
    session = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    return "", session if session.isalnum() and len(session) <= MAX_SESSION_KEY else ""


def _sender(scope: Scope, person: str) -> str:
    client = scope.get("client")
    return f"person {person}" if person else f"address {sender_of(client[0]) if client else 'unknown'}"


class Arriving:
    """The messages of a request that waits. `receive` returns them again to the application."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: deque[Message] = deque()

    async def read(self, scope: Scope) -> None:
        """Read the whole body. Raises Refused if it is too large or too slow."""
        body = BoundedBody(self._receive, STRANGER_BODY_BYTES, STRANGER_BODY_S)
        body.check_length(scope)
        while not body.is_complete:
            self._messages.append(await body.receive())

    async def gone(self) -> None:
        """Return when the client has disconnected. At most one part of the body is read ahead."""
        if self._messages and self._messages[-1].get("more_body"):
            return await _forever()
        while True:
            message = await self._receive()
            self._messages.append(message)
            if message["type"] == "http.disconnect":
                return
            if message.get("more_body"):
                return await _forever()

    async def receive(self) -> Message:
        return self._messages.popleft() if self._messages else await self._receive()


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()
