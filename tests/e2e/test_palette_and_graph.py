"""The palette, the graph and the page of an entity in a browser, by keyboard and by pointer."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e.conftest import Watcher

SignIn = Callable[..., Any]
ENTITY = "/knowledge/entity/?urn=urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"


def type_into_palette(page: Any, text: str) -> None:
    """Type into the palette, and wait until it shows the options for this text, not those for an earlier one."""
    page.keyboard.press("Control+k")
    page.fill("#palette-q", text)
    page.wait_for_selector(f"#palette[data-asked='{text}'] #palette-q:not(.htmx-request)")
    page.wait_for_selector("#palette [role=option][aria-selected=true]")


def active(page: Any) -> str:
    """Return the text of the option that a screen reader announces."""
    return str(
        page.evaluate("document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).innerText")
    )


def test_the_palette_remembers_what_was_chosen_for_the_same_letters(sign_in: SignIn, watcher: Watcher) -> None:
    page = sign_in("maya")
    type_into_palette(page, "refunds")
    first = active(page)
    page.keyboard.press("ArrowDown")
    second = active(page)
    assert first != second
    watcher.muted = page
    faults = Axe().run(page, context="#palette", options={"resultTypes": ["violations"]}).response["violations"]
    watcher.muted = None
    assert [fault["id"] for fault in faults] == []
    with page.expect_navigation():
        page.keyboard.press("Enter")
    type_into_palette(page, "refunds")
    assert active(page) == second
    page.keyboard.press("ArrowUp")  # from the first to the last option
    assert "Remember" in active(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.fill("#palette-q", "")
    page.wait_for_selector("#palette .group:has-text('Recent')")
    assert active(page) == second
    stored = json.loads(page.evaluate("localStorage['palette ' + document.body.dataset.person]"))
    key = page.get_attribute("#palette [aria-selected=true]", "data-key")
    assert stored == {"recent": [key], "letters": [["refunds", key]]}  # no texts


def test_enter_before_the_results_opens_the_best_of_them(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.keyboard.press("Control+k")
    page.keyboard.type("stale mem")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/inbox/\?kind=stale$"))


def test_actions_of_the_palette_act_on_the_page(sign_in: SignIn) -> None:
    page = sign_in("maya")
    before = page.evaluate("document.documentElement.dataset.theme")
    type_into_palette(page, "switch theme")
    page.keyboard.press("Enter")
    page.wait_for_function("before => document.documentElement.dataset.theme !== before", arg=before)
    type_into_palette(page, "keyboard shortcuts")
    page.keyboard.press("Enter")
    expect(page.locator("#keys-sheet")).to_be_visible()


def test_the_graph_is_moved_and_opened_by_keys_and_pointer(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/graph/")
    page.focus(".graph-view")
    boxes = [view_box(page)]
    for key in ("+", "ArrowRight", "ArrowDown", "-", "0"):
        page.keyboard.press(key)
        boxes.append(view_box(page))
    assert all(before != after for before, after in itertools.pairwise(boxes))
    assert boxes[-1] == boxes[0]  # 0 fits the whole picture, as at the start
    assert boxes[1][2] < boxes[0][2]  # + zooms in
    assert boxes[2][0] > boxes[1][0]  # → moves to the right
    view = page.locator(".graph-view").bounding_box()
    page.mouse.move(view["x"] + 200, view["y"] + 200)
    page.mouse.down()
    page.mouse.move(view["x"] + 260, view["y"] + 230, steps=3)
    page.mouse.up()
    assert view_box(page)[0] < boxes[-1][0]
    assert page.url.endswith("/graph/")
    node = page.locator("svg.graph a[data-x]").first
    with page.expect_navigation():
        node.press("Enter")
    expect(page).to_have_url(re.compile("node="))
    page.fill("#q", "Monday report")
    with page.expect_navigation():
        page.press("#q", "Enter")
    expect(page.locator("svg.graph a[aria-current]")).to_have_attribute("aria-label", re.compile("^Monday report"))


def view_box(page: Any) -> list[float]:
    return [round(float(number), 2) for number in page.get_attribute("svg.graph", "viewBox").split()]


@pytest.mark.parametrize("width", [390, 1440])
def test_tabs_of_an_entity_are_changed_in_place_and_by_address(sign_in: SignIn, width: int) -> None:
    page = sign_in("maya", viewport={"width": width, "height": 844})
    page.goto(ENTITY)
    page.focus("#tab-history")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2#history")
    expect(page.locator("#tab-history")).to_be_focused()
    expect(page).to_have_url(re.compile("tab=history"))
    page.reload()
    expect(page.locator("h2#history")).to_be_visible()
    page.go_back()
    page.wait_for_selector("h2#says")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
