"""Turns, strangers, addresses and connections: what stands between the network and the application."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from itertools import islice
from typing import Any

import httpx2
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from foundation.people.caller import system_caller
from foundation.work import fair_queue
from foundation.work.fair_queue import FairQueue, QueueFull, QueueTurn
from memory_project.accounts import password_hashing, people
from memory_project.accounts.recognition import owner_of_session, owner_of_token
from memory_project.accounts.tokens import create_token, revoke_token
from memory_project.models import User
from memory_project.web import admission, request_limits
from memory_project.web.admission import STRANGERS_AT_ONCE, STRANGERS_WAITING, Arriving
from memory_project.web.client_address import ClientAddress, sender_of
from memory_project.web.strict_transport import StrictTransport
from tests.other_processes import WITHIN_S, until

# -- the queue ------------------------------------------------------------------------------------------------


def in_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def started(tasks: list[asyncio.Task[QueueTurn]]) -> list[bool]:
    return [task.done() for task in tasks]


def test_a_sender_alone_has_all_its_turns_and_the_rest_waits() -> None:
    async def test() -> None:
        queue = FairQueue(at_once=2, in_all=10, waiting=1)
        tasks = [asyncio.create_task(queue.take("a")) for _ in range(3)]
        await settle()
        assert started(tasks) == [True, True, False]
        with pytest.raises(QueueFull):
            await queue.take("a")
        tasks[0].result().end()
        tasks[0].result().end()  # again, which changes nothing
        await settle()
        assert started(tasks) == [True, True, True]

    in_loop(test)


def test_while_another_sender_is_active_one_young_call_of_a_sender_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_queue, "BUSY_S", 60.0)

    async def test() -> None:
        queue = FairQueue(at_once=2, in_all=10, waiting=10)
        (await queue.take("b")).end()
        flood = [asyncio.create_task(queue.take("a")) for _ in range(4)]
        await settle()
        assert started(flood) == [True, False, False, False]
        other = await queue.take("b")  # waits for nobody
        other.end()
        while started(flood) == [True, False, False, False]:
            await asyncio.sleep(0.01)  # until it is no longer young, for example because it waits for a warehouse
        assert started(flood) == [True, True, False, False]
        await asyncio.sleep(fair_queue.YOUNG_S + 0.1)
        assert started(flood) == [True, True, False, False]  # but no more than `at_once`

    in_loop(test)


def test_the_next_turn_goes_to_who_has_waited_longest_since_its_last() -> None:
    async def test() -> None:
        queue = FairQueue(at_once=4, in_all=1, waiting=10)
        order: list[str] = []

        async def call(sender: str, *, is_urgent: bool = False) -> None:
            turn = await queue.take(sender, is_urgent=is_urgent)
            order.append("page" if is_urgent else sender)
            await asyncio.sleep(0)
            turn.end()

        calls = [call("a") for _ in range(4)] + [call("b") for _ in range(2)] + [call("a", is_urgent=True)]
        await asyncio.gather(*calls)
        assert order == ["a", "b", "page", "b", "a", "a", "a"]

    in_loop(test)


def test_a_cancelled_request_leaves_the_queue_and_gives_its_turn_back() -> None:
    async def test() -> None:
        queue = FairQueue(at_once=1, in_all=1, waiting=1)
        first = await queue.take("a")
        gone, granted = asyncio.create_task(queue.take("a")), asyncio.create_task(queue.take("b"))
        await settle()
        gone.cancel()
        first.end()
        granted.cancel()  # its future has a result, but the task has not seen it yet
        await settle()
        assert (await asyncio.wait_for(queue.take("c"), 1)).started
        assert set(queue._shares) == {"c"}

    in_loop(test)


def test_while_another_sender_is_busy_a_backlog_has_pauses_as_long_as_its_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_queue, "BUSY_S", 60.0)

    async def test() -> None:
        queue = FairQueue(at_once=1, in_all=10, waiting=10)

        async def run(count: int) -> float:
            """Run calls of .1 s that all wait from the beginning, and return how long they took."""
            before = time.monotonic()

            async def call() -> None:
                turn = await queue.take("a")
                await asyncio.sleep(0.1)
                turn.end()

            await asyncio.gather(*(call() for _ in range(count)))
            return time.monotonic() - before

        (await queue.take("b")).end()
        assert await run(4) >= 0.65  # three pauses
        queue._rests_until.clear()
        await run(1)
        assert not queue._rests_until  # a sender without a backlog has no pauses
        turns = [asyncio.create_task(queue.take("a")) for _ in range(2)]
        await asyncio.sleep(0.2)
        turns[0].result().end()
        urgent = await asyncio.wait_for(queue.take("a", is_urgent=True), 60)
        assert not turns[1].done()
        urgent.end()
        await turns[1]

    in_loop(test)


def test_a_paced_turn_lasts_its_time() -> None:
    async def test() -> None:
        queue = FairQueue(at_once=1, in_all=1, waiting=1, pace_s=0.1)
        (await queue.take("a")).end()
        before = time.monotonic()
        await queue.take("a")
        assert time.monotonic() - before >= 0.09

    in_loop(test)


def test_a_waiting_request_notices_that_its_client_has_gone_and_keeps_the_body() -> None:
    async def test() -> None:
        messages: asyncio.Queue[Any] = asyncio.Queue()
        arriving = Arriving(messages.get)
        gone = asyncio.create_task(arriving.gone())
        body = {"type": "http.request", "body": b"all", "more_body": False}
        messages.put_nowait(body)
        await settle()
        assert not gone.done()
        messages.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(gone, 1)
        assert await arriving.receive() == body
        assert (await arriving.receive())["type"] == "http.disconnect"

    in_loop(test)


# -- people and strangers -----------------------------------------------------------------------------------


def token_of(user: User) -> str:
    return create_token(system_caller(), user=user, name="test")[1]


LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.django_db
def test_recognizing_a_token_or_session_costs_one_query(
    alice_user: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    token, text = create_token(system_caller(), user=alice_user, name="test")
    client = Client()
    client.force_login(alice_user)
    for find, key, owner in (
        (owner_of_token, text, str(alice_user.pk)),
        (owner_of_token, "cpl_made-up", ""),
        (owner_of_session, client.cookies["sessionid"].value, str(alice_user.pk)),
        (owner_of_session, "madeup", ""),
    ):
        with django_assert_num_queries(1):
            assert find(key) == owner
    with django_assert_num_queries(0):
        assert owner_of_token("not one of ours") == owner_of_token("cpl_" + "x" * 10_000) == ""
    revoke_token(system_caller(), token_id=token.pk)
    assert owner_of_token(text) == ""


@pytest.mark.django_db(transaction=True)
def test_unknown_and_missing_tokens_are_refused_before_authentication(
    http: str, alice_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise AssertionError("authentication was reached")

    monkeypatch.setattr("memory_project.mcp.auth.caller_for_token", fail)
    monkeypatch.setattr("memory_project.accounts.tokens.find_token", fail)
    for path in ("/mcp", "/api/v1/memories/recall/"):
        headers = {"Authorization": "Bearer cpl_made-up"}
        response = httpx2.post(f"{http}{path}", json=LIST_TOOLS, headers=headers, timeout=60)
        assert response.status_code == 401
        assert 'error="invalid_token"' in response.headers["WWW-Authenticate"]
        problem = response.json()
        message = problem["error"] if path == "/mcp" else problem["detail"]
        assert (problem["code"], "createtoken" in message) == ("forbidden", True)
    missing = httpx2.post(f"{http}/mcp", json=LIST_TOOLS, timeout=60)
    assert missing.status_code == 401
    assert missing.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")


@pytest.mark.django_db(transaction=True)
def test_a_crowd_of_strangers_is_refused_and_leaves_people_alone(
    http: str, alice_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, running = threading.Event(), threading.Semaphore(0)
    get = "memory_project.portal.views.account.SignIn.get"

    def hang(*arguments: Any, **options: Any) -> Any:
        running.release()
        release.wait(120)
        return HttpResponse("signed out")

    monkeypatch.setattr(get, hang)
    monkeypatch.setattr(admission, "STRANGER_TURN_S", 120.0)
    monkeypatch.setattr(request_limits, "CROWDED_HEADERS_WITHIN_S", WITHIN_S)
    crowd = STRANGERS_AT_ONCE + STRANGERS_WAITING + 10
    with ThreadPoolExecutor(crowd) as pool:
        try:
            pages = [pool.submit(httpx2.get, f"{http}/sign-in/", timeout=120) for _ in range(crowd)]
            for _ in range(STRANGERS_AT_ONCE):
                assert running.acquire(timeout=60)
            refused = [page.result() for page in islice(as_completed(pages, timeout=60), 10)]
            token = token_of(alice_user)  # made while the crowd waits
            headers = {"Authorization": f"Bearer {token}", **ACCEPT}
            assert httpx2.post(f"{http}/mcp", json=LIST_TOOLS, headers=headers, timeout=60).status_code == 200
            assert not running.acquire(blocking=False)  # no more of them run
        finally:
            release.set()
        statuses = [page.result().status_code for page in pages]
    assert statuses.count(429) == 10
    for response in refused:
        assert (response.status_code, response.headers["Retry-After"]) == (429, "2")
        assert "Too many requests are arriving from your network" in response.text


@pytest.mark.django_db(transaction=True)
def test_strangers_who_do_not_read_their_responses_do_not_keep_their_turns(
    http: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "STRANGER_TURN_S", 0.5)
    text = "x" * 20_000_000  # more than the buffers of a connection hold
    monkeypatch.setattr(
        "memory_project.portal.views.account.ForgotPassword.get", lambda *arguments, **options: HttpResponse(text)
    )
    host, port = http.removeprefix("http://").split(":")
    with ExitStack() as stack:
        for _ in range(STRANGERS_AT_ONCE):
            deaf = stack.enter_context(socket.create_connection((host, int(port))))
            deaf.sendall(b"GET /password/forgot/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.3)
        assert httpx2.get(f"{http}/sign-in/", timeout=60).status_code == 200


@pytest.fixture
def one_call_at_once(settings: Any) -> Any:
    settings.CALLS_AT_ONCE, settings.CALLS_WAITING = 1, 0
    return settings


@pytest.mark.django_db(transaction=True)
def test_a_person_with_too_many_calls_is_told_so_and_others_are_served(
    one_call_at_once: Any, http: str, alice_user: User, bob_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, running = threading.Event(), threading.Event()

    def hang(*arguments: Any, **options: Any) -> Any:
        running.set()
        release.wait(60)
        raise TimeoutError

    monkeypatch.setattr("memories.mcp_tools.recall", hang)
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "memory_recall", "arguments": {}}}
    headers = {name: {"Authorization": f"Bearer {token_of(user)}", **ACCEPT} for name, user in
               (("alice", alice_user), ("alice again", alice_user), ("bob", bob_user))}  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(httpx2.post, f"{http}/mcp", json=call, headers=headers["alice"], timeout=60)
        assert running.wait(30)
        # another token of the same person
        refused = httpx2.post(f"{http}/mcp", json=call, headers=headers["alice again"], timeout=60)
        served = httpx2.post(f"{http}/mcp", json=LIST_TOOLS, headers=headers["bob"], timeout=60)
        release.set()
        assert slow.result().status_code == served.status_code == 200
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "2")
    error = refused.json()["error"]  # an error of JSON-RPC, which SDKs show to the agent
    assert ("let some of them finish" in error["message"], error["data"]) == (True, {"code": "limit"})


@pytest.mark.django_db(transaction=True)
def test_the_mcp_address_takes_only_post(http: str, alice_user: User) -> None:
    headers = {"Authorization": f"Bearer {token_of(alice_user)}", **ACCEPT}
    for method in ("GET", "DELETE"):
        assert httpx2.request(method, f"{http}/mcp", headers=headers, timeout=60).status_code == 405


# -- passwords ----------------------------------------------------------------------------------------------


@pytest.fixture
def slow_hash(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Replaces the hash function by one that waits for `release`, and counts how many run at once."""
    state: dict[str, Any] = {"running": 0, "most": 0, "release": threading.Event()}
    lock = threading.Lock()

    def encode(*arguments: Any) -> str:
        with lock:
            state["running"] += 1
            state["most"] = max(state["most"], state["running"])
        state["release"].wait(60)
        with lock:
            state["running"] -= 1
        return "hash"

    monkeypatch.setattr(PBKDF2PasswordHasher, "encode", encode)
    yield state
    state["release"].set()


def test_at_most_two_passwords_are_hashed_at_once(slow_hash: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_hashing, "MAX_WAIT_S", WITHIN_S)
    hasher = password_hashing.BoundedPBKDF2()
    with ThreadPoolExecutor(6) as pool:
        hashes = [pool.submit(hasher.encode, "password", "salt") for _ in range(6)]
        assert until(lambda: slow_hash["running"] == 2)
        time.sleep(0.1)  # in which a third could start
        slow_hash["release"].set()
        assert {future.result() for future in hashes} == {"hash"}
    assert slow_hash["most"] == 2


@pytest.mark.django_db
def test_a_sign_in_that_would_wait_too_long_says_when_to_try_again(
    slow_hash: dict[str, Any], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.PASSWORD_HASHERS = ["memory_project.accounts.password_hashing.BoundedPBKDF2"]
    monkeypatch.setattr(password_hashing, "MAX_WAIT_S", WITHIN_S)
    with ThreadPoolExecutor(2) as pool:
        hashes = [pool.submit(password_hashing.BoundedPBKDF2().encode, "password", "salt") for _ in range(2)]
        assert until(lambda: slow_hash["running"] == 2)
        monkeypatch.setattr(password_hashing, "MAX_WAIT_S", 0.05)
        form = {"username": "nobody@example.org", "password": "wrong", "next": "/insights/"}
        response = Client().post(reverse("sign-in"), form)
        slow_hash["release"].set()
        assert [future.result() for future in hashes] == ["hash", "hash"]
    assert (response.status_code, response["Retry-After"]) == (429, "0")
    assert "Try again in a few seconds" in response.content.decode()


def test_the_project_hashes_passwords_in_bounded_threads() -> None:
    import importlib

    settings = importlib.import_module("memory_project.settings")
    assert settings.PASSWORD_HASHERS == ["memory_project.accounts.password_hashing.BoundedPBKDF2"]


# -- addresses ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trusted", "peer", "forwarded", "expected"),
    [
        ([], "127.0.0.1", ["203.0.113.9"], "127.0.0.1"),
        ([], "10.0.0.5", ["203.0.113.9"], "10.0.0.5"),
        (["10.0.0.5"], "127.0.0.1", ["203.0.113.9"], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        (["127.0.0.1"], "127.0.0.1", ["198.51.100.1, 203.0.113.9"], "203.0.113.9"),  # the first one is the client's own
        (["127.0.0.1"], "127.0.0.1", ["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
        (["127.0.0.1", "10.0.0.0/8"], "127.0.0.1", ["203.0.113.9, 10.1.2.3"], "203.0.113.9"),
        (["127.0.0.1"], "127.0.0.1", ["203.0.113.9:4711"], "203.0.113.9"),
        (["::1"], "::1", ["[2001:db8::7]:4711"], "2001:db8::7"),
        (["127.0.0.1"], "127.0.0.1", ["unknown"], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1", [""], "127.0.0.1"),
        (["127.0.0.1"], "127.0.0.1", [], "127.0.0.1"),
    ],
)
def test_only_named_proxies_tell_the_clients_address(
    settings: Any, trusted: list[str], peer: str, forwarded: list[str], expected: str
) -> None:
    settings.TRUSTED_PROXIES = trusted
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["client"][0], scope["scheme"]))

    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded] + [(b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (peer, 1234), "headers": headers}
    asyncio.run(ClientAddress(application)(scope, None, None))  # type: ignore[arg-type]
    assert seen == [(expected, "https" if peer in trusted else "http")]


@pytest.mark.parametrize(
    ("address", "sender"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::2", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_an_ipv6_client_is_counted_by_its_network(address: str, sender: str) -> None:
    assert sender_of(address) == sender
    assert people.attempt_origin(RequestFactory().get("/", REMOTE_ADDR=address)) == sender.removesuffix("/64")


@pytest.mark.django_db
def test_wrong_passwords_from_one_ipv6_network_are_counted_together(alice_user: User) -> None:
    form = {"username": "alice@example.org", "password": "not the password"}
    statuses = [
        Client(REMOTE_ADDR=f"2001:db8:1:2::{number}").post(reverse("sign-in"), form).status_code
        for number in range(1, 11)
    ]
    assert statuses[-1] == 429


@pytest.mark.parametrize(
    ("url", "seconds", "expected"),
    [("https://x.example", 60, "max-age=60"), ("https://x.example", 0, None), ("http://x.example", 60, None)],
)
def test_browsers_are_told_to_use_https(settings: Any, url: str, seconds: int, expected: str | None) -> None:
    settings.COMMONPLACE_URL, settings.HSTS_SECONDS = url, seconds
    sent: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(StrictTransport(application)({"type": "http"}, None, send))  # type: ignore[arg-type]
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    assert headers.get("strict-transport-security") == expected


# -- connections --------------------------------------------------------------------------------------------


def connections_left(sockets: list[socket.socket]) -> int:
    left = 0
    for held in sockets:
        held.setblocking(False)
        try:
            left += held.recv(1) != b""
        except BlockingIOError:
            left += 1
        except ConnectionResetError:
            pass
    return left


@pytest.mark.django_db(transaction=True)
def test_few_half_open_connections_of_one_address_are_held(http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "CROWDED_HEADERS_WITHIN_S", 0.5)
    host, port = http.removeprefix("http://").split(":")
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(120)]
        for half in held:
            half.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        assert until(lambda: connections_left(held) <= request_limits.MAX_HALF_OPEN_PER_ADDRESS)
        assert httpx2.get(f"{http}/sign-in/", timeout=60).status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("trusted", "left"), [([], 5), (["127.0.0.1"], 30)])
def test_open_connections_of_one_address_are_limited_unless_it_is_a_proxy(
    settings: Any, http: str, trusted: list[str], left: int
) -> None:
    settings.CONNECTIONS_PER_ADDRESS, settings.TRUSTED_PROXIES = 5, trusted
    host, port = http.removeprefix("http://").split(":")
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection((host, int(port)))) for _ in range(30)]
        assert until(lambda: connections_left(held) <= left)
        assert connections_left(held) == left
