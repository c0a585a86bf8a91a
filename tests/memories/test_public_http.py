"""Requests to addresses that people enter reach public hosts only."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import requests

from analysis.sql.public_session import public_session
from foundation.outbound.public_http import NotPublic, PublicTransport, is_public, public_addresses

PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1",
    "255.255.255.255", "::", "::1", "::127.0.0.1", "::93.184.216.34", "::ffff:127.0.0.1", "::ffff:10.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::5db8:d822", "64:ff9b:1::1", "100::1", "2001:0:7f00:1::", "2001:db8::1",
    "2002:7f00:1::", "2002:5db8:d822::", "3fff::1", "5f00::1", "fd00::1", "fe80::1", "fe80::1%eth0", "fec0::1",
    "ff02::1", "ff0e::1",
]  # fmt: skip
Answers = dict[str, list[list[str]]]  # host → the addresses of each look-up; the last is repeated


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_globally_routable_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:93.184.216.34"])
def test_a_global_address_is_public(address: str) -> None:
    assert is_public(address)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Answers:
    answers: Answers = {}

    def look_up(host: str, port: int, **options: Any) -> list[Any]:
        left = answers.get(host, [[host]])
        addresses = left.pop(0) if len(left) > 1 else left[0]
        return [(0, 0, 0, "", (address, port)) for address in addresses]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    return answers


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[httpx.Request]:
    """Replaces the network by one that records requests and redirects `/away` to a private host."""
    requests_sent: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests_sent.append(request)
        if request.url.host == "2606:4700::1111":
            raise httpx.ConnectError("no route")
        if request.url.path == "/away":
            return httpx.Response(302, headers={"Location": "http://inside.example/"})
        return httpx.Response(200)

    monkeypatch.setattr(httpx, "HTTPTransport", lambda: httpx.MockTransport(respond))
    return requests_sent


def test_a_host_with_any_private_address_is_refused(names: Answers) -> None:
    names["mixed.example"] = [["93.184.216.34", "64:ff9b::7f00:1"]]
    with pytest.raises(NotPublic, match=r"mixed\.example resolves to 64:ff9b::7f00:1"):
        public_addresses("mixed.example", 443)


def test_the_checked_address_is_the_one_connected_to(names: Answers, sent: list[httpx.Request]) -> None:
    names["rebinding.example"] = [["93.184.216.34"], ["127.0.0.1"]]
    with httpx.Client(transport=PublicTransport()) as client:
        assert client.post("https://rebinding.example:8443/x", json={"a": 1}).status_code == 200
        with pytest.raises(NotPublic):
            client.post("https://rebinding.example:8443/x", json={"a": 1})
    (request,) = sent
    assert (request.url.host, request.url.port, request.url.path) == ("93.184.216.34", 8443, "/x")
    assert request.headers["Host"] == "rebinding.example:8443"
    assert request.extensions["sni_hostname"] == "rebinding.example"
    assert request.content == b'{"a":1}'


def test_a_redirect_to_a_private_host_is_refused(names: Answers, sent: list[httpx.Request]) -> None:
    names |= {"outside.example": [["93.184.216.34"]], "inside.example": [["10.0.0.1"]]}
    with httpx.Client(transport=PublicTransport(), follow_redirects=True) as client, pytest.raises(NotPublic):
        client.get("http://outside.example/away")
    assert len(sent) == 1


def test_the_next_address_is_tried_if_one_is_unreachable(names: Answers, sent: list[httpx.Request]) -> None:
    names["dual.example"] = [["2606:4700::1111", "93.184.216.34"]]
    with httpx.Client(transport=PublicTransport()) as client:
        assert client.get("https://dual.example/").status_code == 200
    assert [request.url.host for request in sent] == ["2606:4700::1111", "93.184.216.34"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://[::1]:1/", "http://2130706433/", "http://localhost/"])
def test_a_literal_private_address_is_refused_in_every_spelling(url: str) -> None:
    with httpx.Client(transport=PublicTransport()) as client, pytest.raises(NotPublic):
        client.get(url)
    with pytest.raises(requests.ConnectionError, match="no public address"):
        public_session().get(url)
