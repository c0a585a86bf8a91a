"""Browser fixtures: Chromium against a running installation, signed in as one of the demo users."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, TimeoutError, expect, sync_playwright

from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, up

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without background services: Chromium's own requests would look like requests of our pages.
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-quic", "--disable-component-update"]
WINDOW = {"width": 1280, "height": 900}
SCREENSHOTS = ROOT / "var" / "screenshots"
TIMEOUT = 60_000  # milliseconds until a test gives up waiting for the page
WORKER_WITHIN = 120_000  # for what a worker does, which may be at other tasks
expect.set_options(timeout=TIMEOUT)


@dataclass
class Watcher:
    """Collects browser errors: console messages (including CSP violations), server errors and foreign requests."""

    site: str
    faults: list[str] = field(default_factory=list)
    muted: Any = None  # the page in which a testing tool runs scripts

    def watch(self, page: Any) -> None:
        page.on("console", lambda message: self._console(page, message))
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error}"))
        page.on("request", self._request)
        page.on("response", self._response)

    def _console(self, page: Any, message: Any) -> None:
        if (
            page is not self.muted
            and message.type in ("error", "warning")
            and "Failed to load resource" not in message.text
        ):
            self.faults.append(f"{page.url}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.site, "data:", "blob:", "about:")):
            self.faults.append(f"a request to {request.url}")

    def _response(self, response: Any) -> None:
        if response.status >= 500:
            self.faults.append(f"{response.url}: {response.status}")


@contextmanager
def launched() -> Iterator[Any]:
    """Launch the system's Chromium or the one of Playwright. Skips the tests if neither is installed."""
    executable = next((path for name in NAMES if (path := shutil.which(name))), None)
    with sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=executable, args=ARGUMENTS)
        except TimeoutError:  # it is installed, and slow
            raise
        except Error:
            pytest.skip("NO BROWSER, so no page was tried in one: run `make browser` once")
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def installation() -> Iterator[tuple[str, Path]]:
    """Start an installation with demo content. Yields its address and its folder."""
    with prepared_home("demo") as (home, port), up(home, port) as process:
        assert process.poll() is None, (home / "up.log").read_text()
        yield f"http://localhost:{port}", home


@pytest.fixture(scope="session")
def site(installation: tuple[str, Path]) -> str:
    return installation[0]


@pytest.fixture(scope="session")
def home(installation: tuple[str, Path]) -> Path:
    return installation[1]


@pytest.fixture
def watcher(site: str) -> Watcher:
    return Watcher(site)


@pytest.fixture
def sign_in(chromium: Any, site: str, watcher: Watcher) -> Iterator[Callable[..., Any]]:
    """Sign in a user in a separate browser context. At the end, no context may have reported an error."""
    contexts = []

    def open_signed_in(name: str, **options: Any) -> Any:
        page = signed_in(chromium, site, watcher, name, **options)
        contexts.append(page.context)
        return page

    yield open_signed_in
    for context in contexts:
        context.close()
    assert not watcher.faults, "\n".join(watcher.faults)


def signed_in(chromium: Any, site: str, watcher: Watcher, name: str, **options: Any) -> Any:
    """Return a page of a new browser context in which the demo user of this name has signed in."""
    context = chromium.new_context(base_url=site, **{"viewport": WINDOW, **options})
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    watcher.watch(page)
    page.goto("/sign-in/")
    page.fill("#id_username", f"{name}@fernhill.example")
    page.fill("#id_password", "fern-demo-2025")
    page.click("button.primary")
    page.wait_for_url(f"{site}/", timeout=WORKER_WITHIN)  # passwords are hashed when nothing else needs the processor
    return page


def picture(page: Any, name: str, full: bool = True) -> None:
    """Save a screenshot for people to look at, if SCREENSHOTS is set. No test reads it, and it takes half a second."""
    if "SCREENSHOTS" in os.environ:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full)
