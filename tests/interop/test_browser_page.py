"""A page of another origin calls MCP in Chromium, whose rules for foreign origins are the ones that count."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from tests.e2e.conftest import ARGUMENTS, NAMES
from tests.http_servers import QuietHandler, serving
from tests.memory_project.conftest import http

__all__ = ["http"]

CALL = """
async ([address, token]) => {
    const headers = {"Content-Type": "application/json", Accept: "application/json, text/event-stream",
                     "Mcp-Protocol-Version": "2025-11-25", "X-MCP-Toolsets": "memory"};
    if (token) headers.Authorization = `Bearer ${token}`;
    const body = JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools/list"});
    try {
        const response = await fetch(address, {method: "POST", headers, body});
        return [response.status, response.headers.get("WWW-Authenticate"), await response.text()];
    } catch (error) {
        return [0, null, String(error)];
    }
}
"""


class Quiet(QuietHandler, SimpleHTTPRequestHandler):
    """Serves files."""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[list[str]]:
    """The addresses of two web servers, each with one empty page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>A page</title>")
    files = functools.partial(Quiet, directory=str(tmp_path))
    with serving(files) as first, serving(files) as second:
        yield [first, second]


@pytest.fixture
def origins(pages: list[str], settings: Any) -> list[str]:
    """The pages' origins. MCP_ORIGINS contains the first, before the server starts."""
    settings.MCP_ORIGINS = pages[:1]
    return pages


def in_browser(page_address: str, *arguments: tuple[str, str]) -> list[Any]:
    """Run CALL in a page of `page_address`, once for each pair of address and token."""
    playwright = pytest.importorskip("playwright.sync_api", reason="PLAYWRIGHT NOT INSTALLED: no page was tried")
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip("CHROMIUM NOT FOUND, so no page of another origin was tried")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=ARGUMENTS)
        page = browser.new_page()
        page.goto(page_address)
        results = [page.evaluate(CALL, list(pair)) for pair in arguments]
        browser.close()
    return results


@pytest.mark.django_db(transaction=True)
def test_a_page_of_a_named_origin_connects_and_another_does_not(
    origins: list[str], http: str, alice_user: User
) -> None:
    named, other = origins
    token = create_token(system_caller(), user=alice_user, name="page")[1]
    calls = [(f"{http}/mcp", token), (f"{http}/mcp", ""), (f"{http}/mcp", "cpl_unknown"), (f"{http}/healthz", token)]
    with ThreadPoolExecutor(1) as pool:  # Playwright's loop must not run in the thread that uses the database
        offered, missing, unknown, elsewhere = pool.submit(in_browser, named, *calls).result()
        foreign = pool.submit(in_browser, other, *calls[:2]).result()
    assert (offered[0], "memory_recall" in offered[2]) == (200, True)
    assert [status for status, _, _ in (missing, unknown)] == [401, 401]
    assert all("resource_metadata=" in challenge for _, challenge, _ in (missing, unknown))
    assert [elsewhere[0], *(result[0] for result in foreign)] == [0, 0, 0]
