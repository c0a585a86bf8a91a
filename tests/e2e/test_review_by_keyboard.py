"""Review and proposals in a real browser: keyboard navigation, pickers, drafts and saved views."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import TimeoutError, expect

from tests.e2e.conftest import WORKER_WITHIN

FOCUS_IN_PANEL = "[data-panel][open] .panel:focus, [data-panel][open] .panel :focus"
SignIn = Callable[..., Any]
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"


def test_a_curator_asks_the_author_and_sees_the_answer(sign_in: SignIn) -> None:
    curator_page = sign_in("priya")
    curator_page.goto("/review/")
    heading_text = curator_page.inner_text("h1")
    author = heading_text.rpartition("by ")[2].split()[0].lower()  # the first name is the name of the account
    claim = curator_page.inner_text(".fact")
    curator_page.keyboard.press("m")
    curator_page.wait_for_selector("#note-question:focus")
    with curator_page.expect_navigation():
        curator_page.click("text=Since when?")
    expect(curator_page.locator(".fact")).not_to_have_text(claim, use_inner_text=True)
    page = sign_in(author)
    expect(page.locator(".bell .count")).to_have_text(re.compile(r"[1-9]"))
    page.goto("/news/")
    with page.expect_navigation():
        page.click(".row.new .row-link >> nth=0")
    expect(page.locator("main")).to_contain_text("Since when?")
    page.fill("textarea[name=answer]", "Since March.")
    page.click("form[action$='/answer/'] button.primary")
    page.wait_for_selector("text=The insight is back in review")
    curator_page.goto("/review/all/?q=" + " ".join(claim.split()[:4]))
    curator_page.click(".rows .wide a >> nth=0")
    expect(curator_page.locator(".talk")).to_contain_text("Since March.")


def test_no_sequence_of_keys_decides_what_is_not_on_view(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    address, keys = page.url, page.keyboard
    for sequence in ("r Escape m Escape 1", "r a j u e", "Escape z Escape 2", "p Escape 1", "r r 1", "Escape"):
        for key in sequence.split():
            keys.press(key)
    for _ in range(3):  # a held key opens a panel, and confirms nothing in it
        keys.down("p")
    keys.up("p")
    expect(page.locator("[data-panel][open]")).to_have_count(1)
    keys.press("Escape")
    keys.press("h")
    page.wait_for_selector("#to option", state="attached")
    panel, bar = page.locator("[data-panel][open] .reasons").bounding_box(), page.locator(".dock").bounding_box()
    assert panel["x"] >= bar["x"]
    assert panel["x"] + panel["width"] <= bar["x"] + bar["width"]
    keys.press("Escape")
    for _ in range(2):  # a panel that a pointer has opened and closed leaves the keys at work
        page.click("summary:has(kbd:text-is('z'))")
    keys.press("r")
    page.wait_for_selector("#note-reject:focus")
    keys.press("Escape")
    assert page.url == address
    with page.expect_navigation():
        keys.down("a")
    decided = page.inner_text(".queue .quiet")
    keys.down("a")
    keys.up("a")
    page.reload()
    expect(page.locator(".queue .quiet")).to_have_text(decided, use_inner_text=True)


SENTENCES = (
    "already known",
    "same as before, ask Jonas",
    "a note: not true, keep the old one",
    "zero evidence; please hand over",
    "unclear! who says so?",
    "probably right, but since when",
    "the orders table has moved",
    "1 of 2 sources agree",
    "e-mail me next week",
    "just forget it / reject",
)


def open_panel(page: Any, key: str) -> None:
    """Open the panel by its key, which a list that is still closing may swallow: Chromium gives it the next key."""
    for _ in range(5):
        page.keyboard.press(key)
        try:
            page.wait_for_selector(FOCUS_IN_PANEL, timeout=3000)
        except TimeoutError:
            continue
        return
    page.wait_for_selector(FOCUS_IN_PANEL)


def close_panel(page: Any) -> None:
    """Leave the panel. The first Escape closes the calendar or list of its field, if a typed space has opened it."""
    for _ in range(3):
        page.keyboard.press("Escape")
    page.wait_for_selector("[data-panel][open]", state="detached")


@pytest.mark.parametrize("key", ["r", "m", "z", "h", "p"])
def test_typing_never_decides(sign_in: SignIn, key: str) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    address, before = page.url, page.inner_text(".queue .quiet")
    for sentence in SENTENCES:
        page.keyboard.press(key)
        page.keyboard.type(sentence)  # at once, while the panel opens
        close_panel(page)
        open_panel(page, key)
        page.keyboard.type(sentence)
        close_panel(page)
        page.click(f"summary:has(kbd:text-is('{key}'))")  # as with a pointer
        page.keyboard.type(sentence)
        close_panel(page)
    page.reload()
    assert page.url == address
    expect(page.locator(".queue .quiet")).to_have_text(before, use_inner_text=True)


def test_enter_in_a_field_decides_nothing(sign_in: SignIn) -> None:
    page = sign_in("priya")
    posts: list[str] = []
    page.on("request", lambda request: posts.append(request.url) if request.method == "POST" else None)
    page.goto("/review/")
    for key in ("r", "m", "z", "h"):
        open_panel(page, key)
        for pressed in ("Enter", "Control+Enter"):
            if key != "h" or pressed == "Control+Enter":  # Enter opens the list of colleagues
                page.keyboard.press(pressed)
        page.keyboard.type("01152027")
        page.keyboard.press("Control+Enter" if key in ("z", "h") else "Enter")  # Ctrl+Enter sends a note that was typed
        close_panel(page)
    page.fill("#note", "wrong, nobody counts like that")
    page.press("#note", "Enter")
    page.press("#note", "Control+Enter")
    page.goto("/review/all/")
    page.check("tbody input[type=checkbox] >> nth=0")
    page.fill("#note", "no")
    page.press("#note", "Control+Enter")
    page.click("details[data-panel] summary >> nth=0")
    for pressed in ("Enter", "Control+Enter"):
        page.press("#snooze-date", pressed)
        page.wait_for_timeout(300)
    decisions = [url for url in posts if "/approve/" in url or "/reject/" in url]
    assert decisions == []
    assert [url for url in posts if url.endswith("/review/act/")] in ([], posts[-1:])  # the only button of the panel


FOCUS_NOTE_AT_ONCE = """document.addEventListener("htmx:afterSwap", () =>
    setTimeout(() => document.getElementById("note").focus(), 0))"""


def test_a_field_that_is_focused_right_after_a_step_keeps_the_focus(sign_in: SignIn) -> None:
    """Otherwise the rest of what is typed into it would decide."""
    page = sign_in("priya")
    page.goto("/review/")
    first = page.url
    page.evaluate(FOCUS_NOTE_AT_ONCE)
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.wait_for_timeout(300)  # in which the heading of the page could get the focus
    expect(page.locator("#note")).to_be_focused()


def test_a_decision_is_said_aloud_with_its_undo(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    with page.expect_navigation():
        page.keyboard.press("a")
    page.wait_for_selector("#said:text-matches('Approved.*Undo')", state="attached")
    page.keyboard.press("u")
    page.wait_for_selector("#said:text-matches('Approved.*Undo')", state="detached")


def test_two_panes_and_a_double_click(sign_in: SignIn) -> None:
    page = sign_in("priya", viewport={"width": 1440, "height": 900})
    page.goto("/review/")
    first = page.url
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.wait_for_selector(f".pane [aria-current][href='{page.url[page.url.index('/review/') :]}']")
    expect(page.locator("h1")).to_be_focused()
    page.go_back()
    page.wait_for_selector(f".pane [aria-current][href='{first[first.index('/review/') :]}']")
    place = page.locator(".queue .quiet")
    before = int(place.inner_text().split()[0])
    page.dblclick("#decide button.primary >> nth=0")
    page.wait_for_selector(".undo")
    expect(place).to_have_text(re.compile(rf"^\s*{before + 1}\b"))
    page.wait_for_load_state()
    page.keyboard.press("u")
    page.wait_for_selector("text=Undone")


def test_entities_and_columns_are_picked_with_a_live_preview(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/insights/propose/")
    page.fill("#id_content", "The status of orders is closed at ten at night.")
    page.fill("#id_entity_urns-pick", "sales.ord")
    page.wait_for_selector("[role=option]")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".chips").first).to_have_text(re.compile(r"^\s*fernhill\.sales\.order"))
    page.select_option("#id_action_type-0", "update_description")
    page.fill("#id_detail-0", "One row per order, closed at ten.")
    expect(page.locator("#preview ins").first).to_contain_text("closed at ten")
    page.click("form button.primary")
    page.wait_for_selector("text=Proposed. A curator will review it.")
    expect(page.locator(".badge.pending")).to_have_text("Pending")


def test_ctrl_k_opens_the_palette(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-found a")
    page.keyboard.type("fernhill.sales.orders")
    page.wait_for_selector(
        f"#palette-found a[href*='{ORDERS.rpartition(',')[0][-20:]}'], #palette-found a >> text=dataset"
    )
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    page.keyboard.press("Control+k")
    page.fill("#palette-q", "stale mem")
    page.wait_for_selector("#palette-found a[href='/stale/']")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/inbox/\?kind=stale$"))
    page.keyboard.press("?")
    expect(page.locator("#keys-sheet")).to_be_visible()


def test_keys_move_through_lists(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/all/")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("tbody tr:nth-child(2) input[name=ids]")).to_be_checked()
    page.keyboard.press("k")
    expect(page.locator("tbody tr:nth-child(1) .wide a")).to_be_focused()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert "/review/" in page.url
    page.goto("/review/all/")
    page.click("text=Compact")
    page.reload()
    heights = page.eval_on_selector_all("tbody tr", "rows => rows.map(r => r.getBoundingClientRect().height)")
    assert max(heights) <= 40
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_unfinished_memory_can_be_restored_as_draft(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", "A thought that is not finished")
    page.fill("#id_entity_urns-pick", "fernhill.sales.orders")
    page.keyboard.press("Enter")
    page.goto("/")
    page.goto("/memories/new/")
    page.click("[data-restore]")
    expect(page.locator("#id_content")).to_have_value("A thought that is not finished")
    expect(page.locator(".chips .chip")).to_have_count(1)
    page.click("main button.primary")
    page.wait_for_selector(".fact")
    page.goto("/memories/new/")
    expect(page.locator("[data-restore]")).to_be_hidden()


def test_a_saved_view_shows_its_count(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/?category=correction")
    page.click("text=Save this view")
    page.fill("#view-name", "Corrections of ours")
    page.click(".save-view button")
    expect(page.locator(".side .view .count")).to_have_text(re.compile(r"[1-9]"))
    page.click(".side .view button")
    page.wait_for_selector("text=Saved view deleted")


def test_approved_insights_are_applied_together_after_one_preview(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/all/?state=approved")
    page.check(".all-matching")
    page.click("text=Apply…")
    page.wait_for_selector("h1:has-text('together')")
    entry_count = page.locator(".applied-one").count()
    assert entry_count >= 1
    page.click("main button.primary")
    page.wait_for_selector(f"text=/{entry_count} of {entry_count} done/", timeout=WORKER_WITHIN)
    page.wait_for_load_state()
    page.keyboard.press("u")
    page.wait_for_selector("text=/Rolled back/i", timeout=WORKER_WITHIN)
    page.wait_for_selector(f"text=/{entry_count} of {entry_count} done/", timeout=WORKER_WITHIN)


def test_times_are_in_the_time_zone_of_the_browser(sign_in: SignIn) -> None:
    page = sign_in("maya", timezone_id="Asia/Tokyo", locale="de-DE")
    page.goto("/activity/")
    page.reload()  # the server knows the time zone from the second page on
    page.goto("/")
    expect(page.locator(".card time").first).to_have_attribute("title", re.compile("JST"))


def test_a_decision_in_a_second_tab_shows_what_the_first_decided(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    second_tab = page.context.new_page()
    second_tab.goto(page.url)
    with page.expect_navigation():
        page.keyboard.press("a")
    second_tab.fill("#note", "I asked the till people")
    second_tab.press("#note", "Escape")
    second_tab.evaluate("document.activeElement.blur()")
    second_tab.keyboard.press("r")
    second_tab.wait_for_selector("#note-reject:focus")
    expect(second_tab.locator("#note-reject")).to_have_value("I asked the till people")
    second_tab.keyboard.press("Tab")
    with second_tab.expect_navigation():
        second_tab.keyboard.press("Enter")
    conflict = second_tab.locator("section[aria-labelledby=conflict]")
    expect(conflict).to_contain_text("approved it on")
    expect(conflict).to_contain_text("It is approved now")
    expect(second_tab.locator("#conflict-note")).to_have_value("I asked the till people")
    with second_tab.expect_navigation():
        second_tab.keyboard.press("o")
    second_tab.click(".last a")
    expect(second_tab.locator(".head .badge")).to_have_text("Rejected", use_inner_text=True)
    expect(second_tab.locator("main")).to_contain_text("I asked the till people")
