"""What pages do where things are narrow, slow, gone or printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.e2e.conftest import Watcher, picture

SignIn = Callable[..., Any]
TYPED = "The outlet in Bruges closes its books at noon."


def signed_out(page: Any) -> None:
    page.context.clear_cookies()


def sign_in_here(page: Any, name: str = "maya") -> None:
    page.wait_for_selector("#id_password")
    page.fill("#id_username", f"{name}@fernhill.example")
    page.fill("#id_password", "fern-demo-2025")
    page.click("button.primary")


def test_a_session_that_ends_loses_no_typed_text(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.fill("#id_tags-pick", "bruges")
    cookies = page.context.cookies()
    page.context.clear_cookies()  # the session is gone; the form's own token is not
    page.context.add_cookies([cookie for cookie in cookies if cookie["name"] == "csrftoken"])
    page.click("button.primary")
    sign_in_here(page)
    page.wait_for_url("**/memories/new/")
    page.wait_for_selector(".told")
    assert (page.input_value("#id_content"), page.input_value("#id_tags")) == (TYPED, "bruges")
    page.click("button.primary")
    page.wait_for_selector(".fact")
    page.goto("/memories/new/")
    assert page.input_value("#id_content") == ""  # what was accepted does not come back


def test_typed_text_is_not_put_back_for_somebody_else(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.context.clear_cookies()
    page.click("button.primary")
    page.goto("/sign-in/?next=/memories/new/")
    sign_in_here(page, "jonas")
    page.wait_for_url("**/memories/new/")
    assert page.input_value("#id_content") == ""


def test_a_session_that_ends_in_mid_search_comes_back_to_it(sign_in: SignIn) -> None:
    page = sign_in("maya")
    signed_out(page)
    page.fill("#q", "gift cards")
    sign_in_here(page)
    page.wait_for_url(re.compile(r"\?q=gift"))
    assert page.input_value("#q") == "gift cards"
    assert page.locator(".side").count() == 1


def test_a_failed_request_says_so_beside_what_was_tried(sign_in: SignIn, watcher: Watcher) -> None:
    page = sign_in("maya")
    watcher.muted = True  # htmx logs what this test provokes
    page.route("**/?q=*", lambda route: route.fulfill(status=429, body="no"))
    page.fill("#q", "gift")
    page.wait_for_selector("[role=alert].told")
    assert "already waiting" in page.inner_text(".told")
    page.unroute("**/?q=*")
    page.route("**/?q=*", lambda route: route.abort())
    page.fill("#q", "gift car")
    page.wait_for_selector("text=The server did not respond")
    page.unroute("**/?q=*")
    page.fill("#q", "gift cards")
    page.wait_for_selector(".why")
    assert page.locator(".told").count() == 0


def test_one_search_is_one_entry_of_the_history(sign_in: SignIn) -> None:
    page = sign_in("maya")
    before = page.evaluate("history.length")
    page.focus("#q")
    for part in ("gift", " cards", " used"):
        page.keyboard.type(part)
        page.wait_for_url(f"**{part.strip()}*")
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    page.wait_for_url(lambda url: "q=" not in url)


def test_a_small_screen_begins_with_results_and_reaches_the_account(sign_in: SignIn) -> None:
    page = sign_in("maya", viewport={"width": 390, "height": 844})
    picture(page, "narrow-my-knowledge", full=False)
    assert page.locator(".card").first.bounding_box()["y"] < 700
    page.click(".who .name")
    page.wait_for_url("**/account/")


def test_the_claim_is_in_sight_at_200_percent(sign_in: SignIn) -> None:
    page = sign_in("priya", viewport={"width": 640, "height": 400})
    page.goto("/review/")
    page.locator(".fact").scroll_into_view_if_needed()
    picture(page, "zoomed-review", full=False)
    claim, decide = page.locator(".fact").bounding_box(), page.locator(".decide").bounding_box()
    assert decide["y"] >= claim["y"] + claim["height"]


def test_print_shows_the_page_without_its_frame(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    page.emulate_media(media="print")
    picture(page, "printed-review")
    for hidden in (".side", ".decide", ".tabs"):
        assert not page.is_visible(hidden)
    assert page.is_visible(".fact")


def test_code_in_a_claim_scrolls_in_its_card(sign_in: SignIn) -> None:
    page = sign_in("maya", viewport={"width": 390, "height": 844})
    page.goto("/memories/new/")
    page.fill("#id_content", "Use this statement:\n\n```\nSELECT " + "very_long_column_name, " * 20 + "1\n```")
    page.click("button.primary")
    page.wait_for_selector(".fact pre")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.fact pre').scrollWidth") > 390


def test_the_copy_button_covers_nothing(sign_in: SignIn, watcher: Watcher) -> None:
    for width in (390, 1280):
        page = sign_in("maya", viewport={"width": width, "height": 900})
        page.goto("/connect/")
        text, button = (page.locator(f".paste-row {tag}").first.bounding_box() for tag in ("pre", "button"))
        assert text["x"] + text["width"] <= button["x"]
