"""Pages in a browser that blocks storage, as private windows and strict settings do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import Watcher

BLOCKED = """
for (const kind of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, kind, { get() { throw new DOMException("storage is blocked", "SecurityError"); } });
}"""


@pytest.fixture
def page(sign_in: Callable[..., Any], watcher: Watcher) -> Any:
    page = sign_in("priya")
    page.add_init_script(BLOCKED)
    yield page
    # Django's script for the theme of the admin stops without storage, and the theme follows the system.
    watcher.faults = [fault for fault in watcher.faults if "storage is blocked" not in fault]


def test_the_scripts_of_a_page_run(page: Any) -> None:
    stacks: list[str] = []
    page.on("pageerror", lambda error: stacks.append(error.stack))
    page.goto("/")
    root = page.locator("html")
    expect(root).to_have_attribute("data-keys", "on")
    page.keyboard.press("j")
    expect(page.locator("[data-rows] :focus").first).to_be_visible()
    page.click(".compact-toggle")
    expect(root).to_have_attribute("data-compact", "on")
    page.keyboard.press("Control+k")
    page.fill("#palette-q", "review")
    page.wait_for_selector("#palette [role=option]")
    page.goto("/memories/new/")
    page.fill("textarea[name=content]", "Orders of the test shop are not in the reports.")
    page.wait_for_selector(".draft-too-long")  # the text can't be kept, and the page says so
    assert [stack for stack in stacks if "/static/js/" in stack] == []


def test_a_key_skips_an_insight_in_review(page: Any) -> None:
    page.goto("/review/")
    claim = page.inner_text(".fact")
    with page.expect_navigation():
        page.keyboard.press("j")
    expect(page.locator(".fact")).not_to_have_text(claim, use_inner_text=True)
