"""Connecting an MCP client over OAuth: what is offered, what is refused, and what a token may do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.people.models import PersonaMembership
from memory_project.accounts import connected_apps, people
from memory_project.accounts.oauth.redirects import is_safe, source_of
from memory_project.accounts.oauth.registration import PublicFetcher
from memory_project.accounts.oauth.validator import Validator
from memory_project.accounts.recognition import owner_of_token
from memory_project.accounts.tokens import find_token
from memory_project.mcp.auth import caller_for_token
from memory_project.mcp.server import build_server
from memory_project.models import AuditEvent, ConnectedApp, User
from memory_project.web import rate_limits
from tests.oauth_client import (
    BACK,
    RESOURCE,
    browser,
    client_id,
    code_of,
    connected,
    consent,
    exchange,
    register,
    request_of,
)

__all__ = ["browser", "client_id"]  # fixtures

pytestmark = pytest.mark.django_db


def refresh(client_id: str, token: str, **changes: Any) -> Any:
    values = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": token, **changes}
    return Client().post("/oauth/token", values)


# -- metadata ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", "/mcp", "/mcp/", "/mcp/x/memory,graph/readonly"])
def test_metadata_names_the_configured_address_whatever_the_host_header_says(ending: str) -> None:
    metadata = Client().get(f"/.well-known/oauth-protected-resource{ending}", headers={"host": "127.0.0.1"}).json()
    assert metadata["resource"] == f"{settings.COMMONPLACE_URL}{ending or '/mcp'}"
    assert metadata["authorization_servers"] == [settings.COMMONPLACE_URL]


def test_metadata_of_the_authorization_server() -> None:
    metadata = Client().get("/.well-known/oauth-authorization-server", headers={"host": "127.0.0.1"}).json()
    assert metadata["issuer"] == settings.COMMONPLACE_URL
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["grant_types_supported"] == ["authorization_code", "refresh_token"]
    assert metadata["client_id_metadata_document_supported"] is True
    for name in ("authorization", "token", "registration", "revocation"):
        assert metadata[f"{name}_endpoint"].startswith(f"{settings.COMMONPLACE_URL}/oauth/")


@pytest.mark.parametrize(
    "path",
    [".well-known/oauth-protected-resource", ".well-known/oauth-protected-resource/mcp", "oauth/authorize",
     ".well-known/oauth-authorization-server", "oauth/token", "oauth/register", "oauth/revoke"],
)  # fmt: skip
def test_switched_off_there_is_nothing(path: str, browser: Client, client_id: str, settings: Any) -> None:
    token = connected(browser, client_id)["access_token"]
    assert find_token(token)
    settings.OAUTH_ENABLED = False
    assert Client().get(f"/{path}").status_code == Client().post(f"/{path}").status_code == 404
    assert find_token(token) is None
    assert owner_of_token(token) == ""


# -- registration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    ["http://example.org/back", "javascript:alert(1)", "data:text/html,x", "unknown-app://back", "https://", "x",
     "https://a@example.org/", "https://example.org/#part", "https://example.org/ https://evil.example/", 7],
)  # fmt: skip
def test_unsafe_redirect_addresses_are_not_registered(address: Any) -> None:
    response = register(redirect_uris=[BACK, address])
    assert (response.status_code, response.json()["error"]) == (400, "invalid_redirect_uri")
    assert not Application.objects.exists()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [{"grant_types": ["client_credentials"]}, {"grant_types": ["authorization_code", "password"]},
     {"client_name": "x" * 200}, {"client_name": "a\nb"}, {"token_endpoint_auth_method": "private_key_jwt"}],
)  # fmt: skip
def test_unsupported_metadata_are_not_registered(changes: dict[str, Any]) -> None:
    response = register(**changes)
    assert (response.status_code, response.json()["error"]) == (400, "invalid_client_metadata")
    assert not Application.objects.exists()


def test_an_address_can_only_register_a_bounded_number_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "HOUR", 366 * 86_400)  # no hour ends during the test
    answers = [register().status_code for _ in range(rate_limits.REGISTRATIONS_PER_HOUR + 10)]
    assert answers == [201] * rate_limits.REGISTRATIONS_PER_HOUR + [429] * 10
    refused = register()
    assert refused.json()["error"] == "temporarily_unavailable"
    assert int(refused["Retry-After"]) > 0
    assert Application.objects.count() == rate_limits.REGISTRATIONS_PER_HOUR


def test_clients_that_nobody_has_connected_are_deleted_after_a_day(browser: Client, client_id: str) -> None:
    connected(browser, client_id)
    unused = register().json()["client_id"]
    Application.objects.update(created=timezone.now() - timedelta(days=2))
    connected_apps.delete_unused()
    assert list(Application.objects.values_list("client_id", flat=True)) == [client_id]
    assert unused != client_id
    assert ConnectedApp.objects.exists()
    assert RefreshToken.objects.exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]"])
def test_a_client_document_at_a_private_address_is_not_fetched(browser: Client, host: str) -> None:
    response = browser.get("/oauth/authorize", request_of(f"https://{host}/client.json"))
    assert response.status_code == 400
    assert "Invalid client_id" in response.content.decode()
    assert not Application.objects.exists()


def test_a_client_document_is_fetched_once_and_must_name_its_own_address(
    browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, asked = "https://app.example/client.json", []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        document = {"client_id": address, "client_name": "Robo", "redirect_uris": [BACK]}
        return httpx.Response(200, json=document)

    monkeypatch.setattr(
        "memory_project.accounts.oauth.registration.PublicTransport", lambda: httpx.MockTransport(handle)
    )
    page = browser.get("/oauth/authorize", request_of(address)).content.decode()
    assert "app.example" in page
    browser.get("/oauth/authorize", request_of(address))
    assert asked == ["/client.json"]
    assert browser.get("/oauth/authorize", request_of("https://app.example/other.json")).status_code == 400
    assert Application.objects.count() == 1


def test_a_client_document_is_limited_in_size(monkeypatch: pytest.MonkeyPatch) -> None:
    big = httpx.MockTransport(lambda request: httpx.Response(200, content=b"[" * 20_000))
    monkeypatch.setattr("memory_project.accounts.oauth.registration.PublicTransport", lambda: big)
    with pytest.raises(Exception, match="16,384 bytes"):
        PublicFetcher().fetch("https://app.example/client.json")


# -- the consent page -------------------------------------------------------------------------------------


def test_the_page_names_the_client_its_address_and_that_the_name_is_a_claim(browser: Client, client_id: str) -> None:
    response = browser.get("/oauth/authorize", request_of(client_id))
    page = response.content.decode()
    assert "Robo" in page
    assert "127.0.0.1:4711" in page
    assert "chosen this name itself" in page
    assert "form-action 'self' http://127.0.0.1:4711" in response["Content-Security-Policy"]


def test_a_person_signs_in_first(client_id: str) -> None:
    response = Client().get("/oauth/authorize", request_of(client_id))
    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in/?next=/oauth/authorize")


def test_unknown_clients_and_changed_redirects_are_not_redirected(browser: Client, client_id: str) -> None:
    addresses = (f"{BACK}x", f"{BACK}/", BACK.upper(), "https://evil.example/")
    for changes in ({"client_id": "unknown"}, *({"redirect_uri": address} for address in addresses)):
        response = browser.get("/oauth/authorize", request_of(**{"client_id": client_id, **changes}))
        assert response.status_code == 400, changes
        assert consent(browser, **{"client_id": client_id, **changes}).status_code in (400, 404)
    assert not Grant.objects.exists()
    assert not ConnectedApp.objects.exists()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": f"{RESOURCE}x"}, "invalid_target"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
def test_wrong_requests_are_told_to_the_client(
    browser: Client, client_id: str, changes: dict[str, Any], error: str
) -> None:
    response = browser.get("/oauth/authorize", request_of(client_id, **changes))
    assert response.status_code == 302
    answer = parse_qs(urlsplit(response["Location"]).query or urlsplit(response["Location"]).fragment)
    assert (answer["error"], answer["state"]) == ([error], ["s1"])


@pytest.mark.parametrize(
    "changes", [{"code_challenge_method": "plain"}, {"resource": "https://other.example/mcp"}]
)  # fmt: skip
def test_a_changed_form_stores_nothing(browser: Client, client_id: str, changes: dict[str, Any]) -> None:
    assert "error=" in consent(browser, client_id, **changes)["Location"]
    assert not Grant.objects.exists()
    assert not ConnectedApp.objects.exists()


@pytest.mark.parametrize(
    "choice", [{"persona": "supply"}, {"persona": "none"}, {"days": "9999"}, {"toolsets": ["x"]}, {"toolsets": []}]
)
def test_choices_that_the_page_does_not_offer_are_refused(
    browser: Client, client_id: str, choice: dict[str, Any]
) -> None:
    assert consent(browser, client_id, **choice).status_code in (400, 403)
    assert not Grant.objects.exists()
    assert not ConnectedApp.objects.exists()


def test_a_client_cannot_skip_the_page(browser: Client, client_id: str) -> None:
    connected(browser, client_id)
    response = browser.get("/oauth/authorize", request_of(client_id, approval_prompt="auto", consent="x"))
    assert response.status_code == 200
    assert Grant.objects.count() == 0


def test_denial_is_told_to_the_client_and_recorded(browser: Client, client_id: str) -> None:
    response = consent(browser, client_id, allow="")
    assert "error=access_denied" in response["Location"]
    assert not Grant.objects.exists()
    assert AuditEvent.objects.filter(tool="oauth.deny", email="alice@example.org", outcome="refused").count() == 1


# -- tokens -----------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_token_acts_as_the_person_with_what_was_chosen(browser: Client, client_id: str) -> None:
    token = connected(browser, client_id, toolsets=["memory"], read_only="on", persona="sales")["access_token"]
    tools = build_server(toolsets=["all"]).offered.values()
    caller = caller_for_token(token, tools=tools)
    assert caller
    app = ConnectedApp.objects.get()
    assert (caller.email, caller.persona, caller.connection) == ("alice@example.org", "sales", f"app {app.pk}")
    assert caller.rights == frozenset()
    left = {tool.name for tool in tools if caller.may_use(tool.name)}
    assert left == {
        "memory_manage",
        "memory_recall",
        "memory_briefing",
        "catalog_search",
        "catalog_entity",
        "catalog_lineage",
    }
    assert (caller.may_use("memory_manage", "list"), caller.may_use("memory_manage", "remember")) == (True, False)
    assert AuditEvent.objects.filter(tool="oauth.allow", email="alice@example.org").count() == 1


def test_one_query_recognizes_a_token(
    browser: Client, client_id: str, alice_user: User, django_assert_num_queries: Any
) -> None:
    token = connected(browser, client_id)["access_token"]
    find_token(token)
    with django_assert_num_queries(1):
        assert find_token(token)
    with django_assert_num_queries(1):
        assert owner_of_token(token) == str(alice_user.pk)


def test_neither_codes_nor_tokens_are_stored(browser: Client, client_id: str) -> None:
    code = code_of(consent(browser, client_id))
    tables = ("oauth2_provider_grant", "oauth2_provider_accesstoken", "oauth2_provider_refreshtoken", "connected_apps")

    def stored() -> str:
        with connection.cursor() as cursor:
            parts = []
            for table in tables:
                cursor.execute(f"SELECT coalesce(json_agg(t), '[]')::text FROM {table} t")  # noqa: S608 - our own names
                parts.append(cursor.fetchone()[0])
        return "".join(parts)

    assert Grant.objects.count() == 1
    assert code not in stored()
    answer = exchange(client_id, code).json()
    assert AccessToken.objects.exclude(user=None).count() == 1
    assert not [name for name in ("access_token", "refresh_token") if answer[name] in stored()]


def test_tokens_of_apps_are_not_for_the_rest_api(browser: Client, client_id: str) -> None:
    token = connected(browser, client_id)["access_token"]
    assert Client().get("/api/v1/memories/", headers={"authorization": f"Bearer {token}"}).status_code == 401


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"redirect_uri": f"{BACK}/"}, "invalid_request"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"code": "unknown"}, "invalid_grant"),
        ({"client_id": "unknown"}, "invalid_client"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
    ],
)
def test_wrong_exchanges_are_refused_and_store_nothing(
    browser: Client, client_id: str, changes: dict[str, Any], error: str
) -> None:
    code = code_of(consent(browser, client_id))
    response = exchange(**{"client_id": client_id, "code": code, **changes})
    assert response.status_code in (400, 401)
    assert response.json()["error"] == error
    assert not RefreshToken.objects.exists()
    assert not AccessToken.objects.exclude(user=None).exists()


def test_an_expired_code_is_refused(browser: Client, client_id: str) -> None:
    code = code_of(consent(browser, client_id))
    Grant.objects.update(expires=timezone.now())
    assert exchange(client_id, code).json()["error"] == "invalid_grant"
    assert not RefreshToken.objects.exists()


def test_a_replayed_code_ends_the_app(browser: Client, client_id: str) -> None:
    code = code_of(consent(browser, client_id))
    token = exchange(client_id, code).json()
    assert find_token(token["access_token"])
    assert exchange(client_id, code).json()["error"] == "invalid_grant"
    assert find_token(token["access_token"]) is None
    assert refresh(client_id, token["refresh_token"]).json()["error"] == "invalid_grant"


def test_another_client_can_neither_use_a_code_nor_end_the_app_with_it(browser: Client, client_id: str) -> None:
    code, other = code_of(consent(browser, client_id)), register().json()["client_id"]
    assert exchange(other, code).json()["error"] == "invalid_grant"
    token = exchange(client_id, code).json()["access_token"]
    assert exchange(other, code).json()["error"] == "invalid_grant"
    assert find_token(token)


def test_refreshing_rotates_and_reuse_ends_the_family(browser: Client, client_id: str) -> None:
    first = connected(browser, client_id)
    second = refresh(client_id, first["refresh_token"]).json()
    assert find_token(first["access_token"]) is None
    assert find_token(second["access_token"])
    assert refresh(client_id, first["refresh_token"]).json()["error"] == "invalid_grant"
    assert find_token(second["access_token"]) is None
    assert refresh(client_id, second["refresh_token"]).json()["error"] == "invalid_grant"


def test_two_refreshes_at_once_both_succeed(browser: Client, client_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = connected(browser, client_id)
    check = Validator.validate_refresh_token
    winners: list[dict[str, str]] = []

    def check_and_be_overtaken(self: Any, *args: Any, **kwargs: Any) -> bool:
        is_valid = bool(check(self, *args, **kwargs))
        if not winners:
            winners.append({})
            winners[0] = refresh(client_id, first["refresh_token"]).json()
        return is_valid

    monkeypatch.setattr(Validator, "validate_refresh_token", check_and_be_overtaken)
    second = refresh(client_id, first["refresh_token"]).json()
    answers = [*winners, second]
    assert [find_token(answer["access_token"]) is not None for answer in answers] == [True, True]
    assert [refresh(client_id, answer["refresh_token"]).status_code for answer in answers] == [200, 200]


@pytest.mark.parametrize("kind", ["app", "access_token", "refresh_token", "row"])
def test_a_refresh_overtaken_by_an_ending_is_refused(
    browser: Client, client_id: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    token = connected(browser, client_id)
    check = Validator.validate_refresh_token

    def check_and_be_overtaken(self: Any, *args: Any, **kwargs: Any) -> bool:
        is_valid = bool(check(self, *args, **kwargs))
        if kind == "app":
            assert browser.post(f"/connect/apps/{ConnectedApp.objects.get().pk}/end/").status_code == 302
        elif kind == "row":
            RefreshToken.objects.all().delete()
        else:
            Client().post("/oauth/revoke", {"client_id": client_id, "token": token[kind]})
        return is_valid

    monkeypatch.setattr(Validator, "validate_refresh_token", check_and_be_overtaken)
    answer = refresh(client_id, token["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert not connected_apps.of_token(token["access_token"]).exists()


@pytest.mark.parametrize("below", ["", "/", "/x/memory", "/x/memory/readonly"])
def test_each_address_below_mcp_names_the_same_resource(browser: Client, client_id: str, below: str) -> None:
    named = RESOURCE + below
    code = code_of(consent(browser, client_id, resource=named))
    answer = exchange(client_id, code, resource=named)
    assert answer.status_code == 200, answer.content
    token = answer.json()
    assert find_token(token["access_token"])
    for resource in (named, RESOURCE, named.replace("http://localhost", "HTTP://LOCALHOST")):
        token = refresh(client_id, token["refresh_token"], resource=resource).json()
        assert find_token(token["access_token"])


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("mcp:read mcp:write offline_access", "mcp offline_access"),
        ("openid profile email", "mcp"),
        ("mcp  offline_access", "mcp offline_access"),
        (" offline_access", "mcp offline_access"),
        ("admin", "mcp"),
    ],
)
def test_unknown_scopes_are_left_out_and_the_answer_names_the_rest(
    browser: Client, client_id: str, asked: str, granted: str
) -> None:
    token = exchange(client_id, code_of(consent(browser, client_id, scope=asked))).json()
    assert token["scope"] == granted
    renewed = refresh(client_id, token["refresh_token"], scope="mcp mcp:tools").json()
    assert renewed["scope"] == "mcp"
    assert register(scope=asked).json()["scope"] == granted


def test_refreshing_for_another_resource_is_refused(browser: Client, client_id: str) -> None:
    token = connected(browser, client_id)["refresh_token"]
    assert refresh(client_id, token, resource="https://other.example/").json()["error"] == "invalid_target"


def test_a_token_ends_with_its_time_and_the_app_with_its_own(browser: Client, client_id: str) -> None:
    token = connected(browser, client_id)
    AccessToken.objects.update(expires=timezone.now())
    assert find_token(token["access_token"]) is None
    renewed = refresh(client_id, token["refresh_token"]).json()
    assert find_token(renewed["access_token"])
    ConnectedApp.objects.update(expires_at=timezone.now())
    assert find_token(renewed["access_token"]) is None
    assert refresh(client_id, renewed["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_a_client_revokes_its_tokens(browser: Client, client_id: str, kind: str) -> None:
    token = connected(browser, client_id)
    response = Client().post("/oauth/revoke", {"client_id": client_id, "token": token[kind]})
    assert response.status_code == 200
    assert find_token(token["access_token"]) is None
    assert refresh(client_id, token["refresh_token"]).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("is_on", [True, False])
def test_the_connect_page_tells_of_signing_in_from_the_client_if_that_works(
    browser: Client, settings: Any, is_on: bool
) -> None:
    settings.OAUTH_ENABLED = is_on
    text = browser.get("/connect/").content.decode()
    assert ("Sign in from the client" in text, "custom connector" in text) == (is_on, is_on)


def test_people_end_their_apps_on_the_connect_page(browser: Client, client_id: str, bob_user: User) -> None:
    token = connected(browser, client_id)
    app = ConnectedApp.objects.get()
    assert "Robo" in browser.get("/connect/").content.decode()
    stranger = Client()
    stranger.force_login(bob_user, backend="django.contrib.auth.backends.ModelBackend")
    assert stranger.post(f"/connect/apps/{app.pk}/end/").status_code == 404
    assert find_token(token["access_token"])
    assert browser.post(f"/connect/apps/{app.pk}/end/").status_code == 302
    assert find_token(token["access_token"]) is None
    assert refresh(client_id, token["refresh_token"]).json()["error"] == "invalid_grant"
    assert "Robo" not in browser.get("/connect/").content.decode().split("</h1>")[-1]


def test_deactivating_a_person_ends_their_apps_for_good(
    browser: Client, client_id: str, alice_user: User, ada: Caller
) -> None:
    token = connected(browser, client_id)["access_token"]
    people.deactivate(ada, person=alice_user)
    assert find_token(token) is None
    people.activate(ada, person=alice_user)
    assert find_token(token) is None


@pytest.mark.django_db(transaction=True)
def test_a_lost_persona_ends_the_access(browser: Client, client_id: str, alice_user: User) -> None:
    token = connected(browser, client_id, persona="sales")["access_token"]
    PersonaMembership.objects.filter(user=alice_user).delete()
    with pytest.raises(Forbidden):
        caller_for_token(token)


@pytest.mark.parametrize("token", ["x", "é" * 20, "cpl_x", "\x00", "a" * 5_000])
def test_malformed_tokens_are_unknown(token: str) -> None:
    assert owner_of_token(token) == ""
    assert find_token(token) is None


def test_sources_of_the_content_policy() -> None:
    assert source_of("https://claude.ai/api/back?x=1") == "https://claude.ai"
    assert source_of("cursor://anysphere/back") == "cursor:"
    assert source_of("http://[::1]:1/x") == "http:"
    assert not re.search(r"[;, ]", source_of("https://a.example;script-src */x"))
    assert is_safe("cursor://anysphere/back")
