"""Consent in a real browser against a running installation: the form leads back to the app under the page's policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.e2e.conftest import picture
from tests.http_servers import QuietHandler, serving
from tests.interop.conftest import Site
from tests.oauth_client import CHALLENGE, VERIFIER

HEADERS = {"accept": "application/json, text/event-stream"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def app() -> Iterator[str]:
    """Listen like a desktop application for the redirect. Yields the redirect address."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"You can close this window.")

    with serving(Handler) as url:
        yield f"{url}/callback"


def register(site: str, app: str) -> str:
    metadata = {"client_name": "Robo", "redirect_uris": [app], "token_endpoint_auth_method": "none"}
    return str(httpx.post(f"{site}/oauth/register", json=metadata).json()["client_id"])


def open_consent(page: Any, site: str, app: str, client_id: str) -> None:
    query = {
        "client_id": client_id, "redirect_uri": app, "response_type": "code", "state": "s1", "scope": "mcp",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": f"{site}/mcp",
    }  # fmt: skip
    page.goto(f"{site}/oauth/authorize?{urlencode(query)}")
    page.fill("#id_username", "maya@fernhill.example")
    page.fill("#id_password", "fern-demo-2025")
    page.click("button.primary")
    page.wait_for_selector("text=chosen this name itself")


def answer(page: Any, button: str, app: str) -> dict[str, list[str]]:
    page.get_by_role("button", name=button, exact=True).click()
    page.wait_for_url(f"{app}**")
    return parse_qs(urlsplit(page.url).query)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_allow_use_and_end_an_app_in_a_browser(chromium: Any, site: Site, app: str, scheme: str) -> None:
    address = site.address
    client_id, page = register(address, app), chromium.new_page(color_scheme=scheme)
    page.set_default_timeout(15_000)
    open_consent(page, address, app, client_id)
    picture(page, f"consent-{scheme}")
    values = answer(page, "Allow", app)
    assert (values["state"], values["iss"]) == (["s1"], [address])
    exchange = {
        "grant_type": "authorization_code", "client_id": client_id, "code": values["code"][0],
        "redirect_uri": app, "code_verifier": VERIFIER,
    }  # fmt: skip
    token = httpx.post(f"{address}/oauth/token", data=exchange).json()["access_token"]
    headers = {**HEADERS, "authorization": f"Bearer {token}"}
    assert httpx.post(f"{address}/mcp", json=LIST_TOOLS, headers=headers).status_code == 200
    page.goto(f"{address}/connect/")
    picture(page, f"connected-apps-{scheme}")
    page.get_by_role("button", name="End", exact=True).click()
    page.wait_for_selector("text=has no access any more")
    assert httpx.post(f"{address}/mcp", json=LIST_TOOLS, headers=headers).status_code == 401
    page.close()


def test_deny_in_a_browser(chromium: Any, site: Site, app: str) -> None:
    client_id, page = register(site.address, app), chromium.new_page()
    page.set_default_timeout(15_000)
    open_consent(page, site.address, app, client_id)
    assert answer(page, "Deny", app)["error"] == ["access_denied"]
    page.close()
