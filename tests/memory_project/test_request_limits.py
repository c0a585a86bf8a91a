"""What the HTTP parser leaves to us: raw bytes of clients that are hostile or broken."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from memory_project.web import request_limits
from memory_project.web.request_limits import MAX_INCOMPLETE_BYTES, MAX_PIPELINED, uvicorn_options

GET = b"GET /first HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nX-Real: yes\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the path, the headers and the length of the body."""
    size = 0
    while scope["type"] == "http":
        message = await receive()
        size += len(message.get("body", b""))
        if not message.get("more_body"):
            break
    names = [name.decode() for name, _ in scope["headers"]]
    body = json.dumps({"path": scope["path"], "headers": names, "size": size}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    config = uvicorn.Config(application, host="127.0.0.1", port=0, lifespan="off", **uvicorn_options())
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def exchange(port: int, *parts: bytes) -> bytes:
    """Send the parts and return everything that the server sends until it closes the connection or pauses."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        try:
            for part in parts:
                client.sendall(part)
                time.sleep(0.02)  # so that the parts arrive one by one
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed by the server
        received = b""
        try:
            while part := client.recv(65_536):
                received += part
        except OSError:
            pass
    return received


def status(response: bytes) -> int:
    return int(response.split()[1]) if response else 0


def body(response: bytes) -> dict[str, Any]:
    return dict(json.loads(response.partition(b"\r\n\r\n")[2]))


def test_a_request_is_served_however_it_is_cut(port: int) -> None:
    request = CHUNKED + b"5\r\nhello\r\n3;note=x\r\nyou\r\n0\r\n\r\n"
    assert body(exchange(port, request)) == body(
        exchange(port, *[request[n : n + 9] for n in range(0, len(request), 9)])
    )
    assert body(exchange(port, request))["size"] == 8


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(GET + b"X-Endless: ", id="a header"),
        pytest.param(b"GET /", id="the address"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\nX-Endless: ", id="a trailer"),
        pytest.param(CHUNKED + b"5;x=", id="the extension of a chunk"),
    ],
)
def test_what_never_becomes_complete_is_refused(port: int, start: bytes) -> None:
    assert status(exchange(port, start, *[b"a" * 16_384] * (MAX_INCOMPLETE_BYTES // 16_384 + 2))) == 400


def test_many_headers_are_refused(port: int) -> None:
    headers = [b"X-%d: %s\r\n" % (number, b"a" * 8_000) for number in range(20)]
    assert status(exchange(port, GET, *headers)) == 400
    assert status(exchange(port, GET, *headers[:3], b"\r\n")) == 200


def test_a_trailer_is_no_header(port: int) -> None:
    response = exchange(port, CHUNKED + b"5\r\nhello\r\n0\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n")
    assert body(response) == {"path": "/", "headers": ["host", "transfer-encoding", "x-real"], "size": 5}


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-A: b\nX-B: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200),
        (b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),  # TLS
    ],
)
def test_ambiguous_requests_are_refused(port: int, request_bytes: bytes, expected: int) -> None:
    assert status(exchange(port, request_bytes)) == expected


def test_pipelined_requests_are_answered_in_order_and_a_flood_of_them_is_refused(port: int) -> None:
    few = exchange(port, b"".join(b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n" % number for number in range(5)))
    assert [few.count(b'"path": "/%d"' % number) for number in range(5)] == [1] * 5
    assert few.index(b"/1") < few.index(b"/4")
    flood = exchange(port, (GET + b"\r\n") * 3_000)
    assert flood.count(b"200 OK") <= MAX_PIPELINED + 1
    assert flood.count(b"400 Bad Request") == 1


def test_a_later_request_of_a_connection_must_arrive_in_time_too(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_limits, "CROWDED_HEADERS_WITHIN_S", 0.1)
    monkeypatch.setattr(request_limits, "HEADERS_WITHIN_S", 1.5)
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(GET + b"\r\n")
        assert status(client.recv(65_536)) == 200
        is_closed = False
        for letter in GET + b"X-Slow: " + b"a" * 400:  # some 20 s in all
            time.sleep(0.05)
            try:
                client.sendall(bytes([letter]))
            except OSError:
                is_closed = True
                break
        assert is_closed
