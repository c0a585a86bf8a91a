"""Whose credential goes upstream, with a real upstream over HTTP and its authorization server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import jwt
import pytest
from django.db import connections
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.database import identity
from foundation.operations.errors import Conflict, Degraded, DomainError, Forbidden, Invalid
from foundation.people.caller import Caller
from memories.conversation import wipe
from memory_project.accounts import people
from memory_project.mcp.gateway import (
    credentials,
    declaration,
    exchange,
    registry,
    sign_in,
    status,
    stored_credentials,
    trial,
)
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import PendingSignIn, PinnedTool, StoredCredential
from memory_project.models import AuditEvent, User
from tests.memory_project.gateway.conftest import as_caller, listed
from tests.memory_project.gateway.errors import error_of
from tests.oauth_upstream import OAuthUpstream, serve

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "a-secret-of-alice"
HEADER = 'headers = { Authorization = "Bearer ${PERSON_SECRET}" }'
PAGE = "/connect/systems/"

Declare = Callable[..., Upstream]


@pytest.fixture(scope="module")
def server() -> Iterator[OAuthUpstream]:
    with serve() as running:
        yield running


@pytest.fixture
def crm(server: OAuthUpstream, tmp_path: Path, settings: Any) -> Iterator[Declare]:
    """Return a function that declares the upstream `crm` for the personas of Alice and Bob."""

    def declare(*lines: str, host: str = "127.0.0.1") -> Upstream:
        url = server.url.replace("127.0.0.1", host)
        text = ["[upstreams.crm]", f'url = "{url}/mcp"', 'personas = ["sales"]', *lines]
        file = tmp_path / "upstreams.toml"
        file.write_text("\n".join(text))
        settings.MCP_UPSTREAMS = str(file)
        registry.forget()
        return registry.refreshed().upstreams["crm"]

    server.tokens.clear()
    server.refresh_tokens.clear()
    server.forms.clear()
    server.lifetime_s = 3_600
    registry.forget()
    yield declare
    registry.forget()


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def act(client: Client, act: str, **fields: str) -> str:
    """Send a form of the page, and return the page that follows."""
    response = client.post(reverse("change-system", args=["crm", act]), {"next": PAGE, **fields}, follow=True)
    return str(response.content.decode())


def address_in(page: str) -> str:
    return unescape(page.split('<a class="button primary" href="')[1].split('"')[0])


def signed_in(client: Client, server: OAuthUpstream, person: str) -> str:
    answer = server.authorize(address_in(act(client, "sign-in")), person)
    return str(client.get(reverse("upstream-callback"), answer, follow=True).content.decode())


def called(caller: Caller) -> Any:
    async def action(client: Any) -> Any:
        await listed(client, "crm_who")
        return await client.call_tool("crm_who", {})

    return as_caller(replace(caller, connection="one"), action)


def test_a_person_stores_a_secret_that_only_their_calls_use(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller, bob: Caller, olga_user: User
) -> None:
    upstream = crm('credentials = "person"', HEADER)
    server.tokens[SECRET] = "Alice"
    assert status.due() == []  # never probed without a person
    client = browser(alice_user)
    assert "was tried and failed" in act(client, "save", secret="wrong")
    page = act(client, "save", secret=f" {SECRET} ")
    assert "crm works and offers 1 tool." in page
    assert SECRET not in page
    assert PinnedTool.objects.get(upstream="crm").tool == "who"
    with identity.service("gateway"):
        assert SECRET not in StoredCredential.objects.get().sealed
    assert "Alice" in called(alice).content[0].text
    assert "store your secret at Connect → Connected systems (/connect/systems/#crm)" in error_of(called(bob))
    events = AuditEvent.objects.filter(tool="portal.change-system.save")
    assert {event.email for event in events} == {alice.email}
    assert all(SECRET not in str(event.arguments) + event.message for event in events)

    outsider = browser(olga_user)
    assert "crm" not in outsider.get(PAGE).content.decode()
    for name in ("save", "try", "remove", "sign-in"):
        assert outsider.post(reverse("change-system", args=["crm", name]), {"secret": SECRET}).status_code == 404
    with identity.acting_as(bob):  # PostgreSQL keeps them apart, too
        assert not StoredCredential.objects.exists()
    for bad in ("", "two\nlines", "ü", "x" * 8_001):
        with pytest.raises(Invalid, match="secret"):
            stored_credentials.save_secret(alice, upstream=upstream, secret=bad)


def test_a_replaced_or_removed_secret_ends_open_connections(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller
) -> None:
    upstream = crm('credentials = "person"', HEADER)
    server.tokens |= {SECRET: "Alice", "other": "the new Alice"}
    stored_credentials.save_secret(alice, upstream=upstream, secret=SECRET)
    trial.list_tools(upstream, alice)

    async def action(client: Any) -> Any:
        from anyio import to_thread

        await listed(client, "crm_who")
        first = await client.call_tool("crm_who", {})
        del server.tokens[SECRET]
        refused = await client.call_tool("crm_who", {})
        save = lambda: _in_session(stored_credentials.save_secret, alice, upstream=upstream, secret="other")  # noqa: E731
        await to_thread.run_sync(save)
        second = await client.call_tool("crm_who", {})
        await to_thread.run_sync(lambda: _in_session(stored_credentials.remove, alice, upstream=upstream))
        return first, refused, second, await client.call_tool("crm_who", {})

    first, refused, second, gone = as_caller(replace(alice, connection="one"), action)
    assert first.content[0].text == "Alice"
    assert "store your secret" in error_of(refused)
    assert second.content[0].text == "the new Alice"
    assert "store your secret" in error_of(gone)


def _in_session(work: Callable[..., Any], caller: Caller, **arguments: Any) -> None:
    from foundation.database import connections as of_thread

    with of_thread.session():
        work(caller, **arguments)


def test_a_secret_goes_to_the_server_it_was_stored_for_and_needs_the_key(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller, settings: Any
) -> None:
    upstream = crm('credentials = "person"', HEADER)
    stored_credentials.save_secret(alice, upstream=upstream, secret=SECRET)
    moved = crm('credentials = "person"', HEADER, host="localhost")  # an operator names another server
    with pytest.raises(Degraded, match="store your secret"):
        credentials.for_connection(moved, alice)
    upstream = crm('credentials = "person"', HEADER)
    assert credentials.for_connection(upstream, alice).headers == {"Authorization": f"Bearer {SECRET}"}
    settings.SECRET_KEY = "another-key-of-fifty-characters-that-nobody-has-used-before"
    with pytest.raises(Degraded, match="store your secret"):
        credentials.for_connection(upstream, alice)
    page = browser(alice_user).get(PAGE)
    assert "needed again" in page.content.decode()


def test_a_person_signs_in_and_a_state_works_once_for_its_person(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller, bob_user: User
) -> None:
    crm('credentials = "person"', "oauth = {}")
    client, thief = browser(alice_user), browser(bob_user)
    page = act(client, "sign-in")
    assert "127.0.0.1</b>" in page
    answer = server.authorize(address_in(page), "Alice")
    callback = reverse("upstream-callback")
    assert Client().get(callback, answer)["Location"].startswith(reverse("sign-in"))
    assert thief.get(callback, answer).status_code == 403  # a stolen state
    assert client.get(callback, {**answer, "state": "x"}).status_code == 403
    assert "crm works and offers 1 tool." in client.get(callback, answer, follow=True).content.decode()
    assert client.get(callback, answer).status_code == 403  # a replay
    assert [form["grant_type"] for form in server.forms] == ["authorization_code"]
    assert called(alice).content[0].text == "Alice"
    event = AuditEvent.objects.filter(tool="portal.upstream-sign-in", outcome="ok").get()
    assert (event.email, answer["code"] in str(event.arguments)) == (alice.email, False)

    answer = server.authorize(address_in(act(client, "sign-in")), "Alice")
    with identity.service("gateway"):
        PendingSignIn.objects.update(started_at=timezone.now() - timedelta(minutes=11))
    assert client.get(callback, answer).status_code == 403
    answer = server.authorize(address_in(act(client, "sign-in")), "Alice")
    assert client.get(callback, {"state": answer["state"], "error": "access_denied"}).status_code == 409
    answer = server.authorize(address_in(act(client, "sign-in")), "Alice")
    assert client.get(callback, {**answer, "iss": "https://other.example"}).status_code == 502  # RFC 9207


def test_one_of_many_refreshes_and_a_refused_refresh_asks_again(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller
) -> None:
    upstream = crm('credentials = "person"', "oauth = {}")
    server.lifetime_s = 20  # too short to be used again
    client = browser(alice_user)
    signed_in(client, server, "Alice")
    server.lifetime_s = 3_600
    server.forms.clear()
    found: list[str] = []

    def refresh() -> None:
        _in_session(
            lambda caller: found.append(stored_credentials.access_token(upstream, caller.email).access_token), alice
        )
        connections.close_all()

    threads = [threading.Thread(target=refresh) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [form["grant_type"] for form in server.forms] == ["refresh_token"]
    server.tokens.clear()  # the server withdraws the token early, and renews it
    assert called(alice).content[0].text == "Alice"
    server.tokens.clear()
    server.refresh_tokens.clear()
    refused = error_of(called(alice))
    assert "crm: sign in at Connect → Connected systems (/connect/systems/#crm), then call again" in refused
    assert "refused" in client.get(PAGE).content.decode()
    server.forms.clear()
    error_of(called(alice))
    assert server.forms == []  # not tried again


def test_operators_sign_in_for_everybody(
    crm: Declare, server: OAuthUpstream, ada_user: User, alice_user: User, alice: Caller
) -> None:
    crm("oauth = {}")
    assert "crm" not in browser(alice_user).get(PAGE).content.decode()
    assert browser(alice_user).post(reverse("change-system", args=["crm", "sign-in"])).status_code == 403
    assert "crm works" in signed_in(browser(ada_user), server, "the robot")
    assert called(alice).content[0].text == "the robot"


def test_a_client_signs_in_without_a_person_and_only_at_its_issuer(
    crm: Declare, server: OAuthUpstream, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTREAM_CRM_SECRET", "of-the-client")
    client = 'client_id = "cp", client_secret = "${UPSTREAM_CRM_SECRET}", client_credentials = true'
    upstream = crm(f'oauth = {{ {client}, issuer = "{server.url}" }}')
    assert called(alice).content[0].text == "the client"
    elsewhere = crm(f'oauth = {{ {client}, issuer = "https://elsewhere.example" }}')
    server.forms.clear()
    with pytest.raises(DomainError, match=r"does not use the declared oauth\.issuer"):
        trial.list_tools(elsewhere, alice)
    assert server.forms == []
    assert upstream.credentials == "service"


def test_a_token_of_the_issuer_is_exchanged_and_no_other_one(
    crm: Declare, server: OAuthUpstream, alice: Caller, settings: Any
) -> None:
    settings.OIDC_ISSUER = server.url
    upstream = crm('credentials = "exchange"', f'exchange = {{ token_url = "{server.url}/token", client_id = "cp" }}')
    subject = jwt.encode({"exp": time.time() + 300, "sub": "alice"}, "k" * 32, algorithm="HS256")
    caller = replace(alice, connection=exchange.CONNECTION)
    exchange.remember(caller, subject)
    with pytest.raises(DomainError, match="only takes calls with a token of the company's issuer"):
        trial.list_tools(upstream, replace(alice, connection="token 1"))  # comes with a token of Commonplace
    assert status.due() == [(upstream, caller)]
    assert as_caller(caller, lambda client: listed(client, "crm_who"))  # her call lets the tools be listed
    assert trial.list_tools(upstream, caller) == 1
    assert trial.list_tools(upstream, caller) == 1
    assert len(server.forms) == 1
    assert (server.forms[0]["subject_token"], subject in server.tokens) == (subject, False)
    with pytest.raises(DomainError, match="only takes calls"):
        trial.list_tools(upstream, replace(caller, email="bob@example.org"))
    exchange.remember(caller, jwt.encode({"exp": time.time() - 1}, "k" * 32, algorithm="HS256"))
    with pytest.raises(DomainError, match="only takes calls"):
        trial.list_tools(upstream, caller)


def test_credentials_go_with_the_person(
    crm: Declare, server: OAuthUpstream, alice_user: User, alice: Caller, bob: Caller, ada: Caller
) -> None:
    upstream = crm('credentials = "person"', HEADER)
    stored_credentials.save_secret(alice, upstream=upstream, secret=SECRET)
    stored_credentials.save_secret(bob, upstream=upstream, secret="of-bob")
    people.deactivate(ada, person=alice_user)
    with identity.service("gateway"):
        assert StoredCredential.objects.get().owner == bob.email
    with identity.service("wipe"):
        assert wipe.count(bob.email)["gateway_credentials"] >= 1


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ({"headers": {"X": "${PERSON_SECRET}"}}, "headers only, with credentials = person"),
        ({"credentials": "person"}, "PERSON_SECRET"),
        ({"credentials": "person", "headers": {"X": "${PERSON_SECRET}"}, "oauth": {}}, "either"),
        ({"oauth": {}, "headers": {"authorization": "x"}}, "Authorization"),
        ({"oauth": {"client_id": "a", "client_secret": "${UPSTREAM_A}"}}, "issuer"),
        ({"oauth": {"client_id": "a", "client_credentials": True}}, "client_secret"),
        ({"credentials": "exchange", "exchange": {"token_url": "https://x.org/t", "client_id": "a"}}, "OIDC_ISSUER"),
    ],
)
def test_declarations_that_would_leak_or_cannot_work_are_refused(lines: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        declaration.parse("crm", {"url": "https://crm.example.org/mcp", **lines})


def test_a_service_without_a_sign_in_takes_no_credential(crm: Declare, alice: Caller) -> None:
    upstream = crm()
    with pytest.raises(Conflict):
        stored_credentials.save_secret(alice, upstream=upstream, secret=SECRET)
    with pytest.raises(Forbidden):
        sign_in.start(alice, upstream=crm("oauth = {}"))
