"""OAuth clients of other authors: they get the address of /mcp alone, and a person answers the consent page."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from tests.interop.conftest import PERSON, Site
from tests.interop.registry import DRIVER_S, ForeignClient

PASSWORD = "fern-demo-2025"
LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)"(?: value="([^"]*)")?')


class Driver:
    """A running script of the folder `clients`. It reads steps and prints events, one JSON object a line."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url
        self.stop = threading.Timer(DRIVER_S, process.kill)
        self.stop.start()

    def use(self, expire: bool = False) -> dict[str, Any]:
        """Let the client list the tools and recall something. Returns its first event."""
        call = {"tool": "memory_recall", "arguments": {"query": "harvest", "limit": 2}}
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"url": self.url, "expire": expire, **call}) + "\n")
        self.process.stdin.flush()
        return self.event()

    def event(self) -> dict[str, Any]:
        assert self.process.stdout
        assert self.process.stderr
        for line in self.process.stdout:
            if line.startswith("{"):
                event: dict[str, Any] = json.loads(line)
                return event
        raise AssertionError(f"the client has ended: {self.process.stderr.read()[-3000:]}")

    def close(self) -> None:
        self.stop.cancel()
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start(site: Site) -> Iterator[Callable[..., Driver]]:
    drivers = []

    def start(client: ForeignClient, script: str, **environment: str) -> Driver:
        drivers.append(Driver(client.start(script, **environment), f"{site.address}/mcp"))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.close()


def in_chromium(chromium: Any, site: Site, address: str) -> Callable[[], None]:
    """Sign in and allow in a browser. Returns a function that ends the app there."""
    page = chromium.new_page()
    page.set_default_timeout(30_000)
    page.goto(address)
    page.fill("#id_username", PERSON)
    page.fill("#id_password", PASSWORD)
    page.click("button.primary")
    page.get_by_role("button", name="Allow", exact=True).click()
    page.wait_for_url("**/callback?**")

    def end() -> None:
        page.goto(f"{site.address}/connect/")
        page.get_by_role("button", name="End", exact=True).click()
        page.wait_for_selector("text=has no access any more")
        page.close()

    return end


def with_forms(session: httpx.Client, site: Site, address: str) -> Callable[[], None]:
    """Sign in and allow by posting the forms. Returns a function that ends the app in the same way."""

    def post(response: httpx.Response, path: str, **values: Any) -> httpx.Response:
        fields = {name: unescape(value) for name, value in HIDDEN.findall(response.text)} | values
        sent = session.post(urljoin(str(response.url), path), data=fields, headers={"Referer": str(response.url)})
        assert sent.status_code == 200, sent.text
        return sent

    consent = post(session.get(address), "", username=PERSON, password=PASSWORD)
    assert urlsplit(str(consent.url)).path == "/oauth/authorize", consent.text
    choices = {"allow": "true", "persona": "", "toolsets": ["memory"], "days": "1"}
    answered = post(consent, "/oauth/authorize", **choices)
    assert urlsplit(str(answered.url)).path == "/callback", answered.text

    def end() -> None:
        page = session.get(f"{site.address}/connect/")
        (path,) = re.findall(
            r'action="(/[^"]*)">\s*<input type="hidden" name="csrf[^>]*>\s*<input\s[^>]*><button>End', page.text
        )
        assert "has no access any more" in post(page, path).text

    return end


def is_refused(site: Site, token: str) -> bool:
    headers = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"}
    return httpx.post(f"{site.address}/mcp", json=LIST_TOOLS, headers=headers, timeout=60).status_code == 401


def connect_refresh_and_end(site: Site, driver: Driver, allow: Callable[[str], Callable[[], None]]) -> None:
    asked = driver.use()
    assert asked.get("open", "").startswith(f"{site.address}/oauth/authorize?"), asked
    end = allow(asked["open"])
    first = driver.event()
    assert "memory_recall" in first.get("tools", []), first
    assert "memor" in first["text"]
    second = driver.use(expire=True)
    assert second.get("tools") == first["tools"], second  # nobody was asked again
    assert second["access_token"] != first["access_token"]
    assert [is_refused(site, answer["access_token"]) for answer in (first, second)] == [True, False]
    end()
    assert is_refused(site, second["access_token"])
    assert driver.use().get("open", "").startswith(f"{site.address}/oauth/authorize?")


@pytest.mark.parametrize(
    ("installed", "version"), [("typescript-sdk-1", "1"), ("typescript-sdk-2", "2")], indirect=["installed"]
)
def test_the_typescript_sdk_with_the_consent_in_a_browser(
    installed: ForeignClient, version: str, start: Any, site: Site, chromium: Any
) -> None:
    driver = start(installed, "typescript_oauth.cjs", SDK=version)
    connect_refresh_and_end(site, driver, lambda address: in_chromium(chromium, site, address))


@pytest.mark.parametrize("installed", ["fastmcp"], indirect=True)
def test_fastmcp_with_the_consent_as_a_form(installed: ForeignClient, start: Any, site: Site) -> None:
    driver = start(installed, "fastmcp_oauth.py")
    with httpx.Client(follow_redirects=True, timeout=60) as session:
        connect_refresh_and_end(site, driver, lambda address: with_forms(session, site, address))
