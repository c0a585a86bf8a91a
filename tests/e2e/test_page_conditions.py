"""Pages under difficult conditions: expired sessions, failing requests, narrow windows and printing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.e2e.conftest import Watcher, picture

SignIn = Callable[..., Any]
TYPED = "The outlet in Bruges closes its books at noon."


def end_session(page: Any) -> None:
    page.context.clear_cookies()


def sign_in_again(page: Any, name: str = "maya") -> None:
    page.wait_for_selector("#id_password")
    page.fill("#id_username", f"{name}@fernhill.example")
    page.fill("#id_password", "fern-demo-2025")
    page.click("button.primary")


def test_typed_text_survives_the_end_of_a_session(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.fill("#id_tags-pick", "bruges")
    cookies = page.context.cookies()
    page.context.clear_cookies()  # the session has ended, but the form's CSRF token is still valid
    page.context.add_cookies([cookie for cookie in cookies if cookie["name"] == "csrftoken"])
    page.click("button.primary")
    sign_in_again(page)
    page.wait_for_url("**/memories/new/")
    page.click("text=Restore")
    expect(page.locator("#id_content")).to_have_value(TYPED)
    expect(page.locator("#id_tags")).to_have_value("bruges")
    page.click("button.primary")
    page.wait_for_selector(".fact")
    page.goto("/memories/new/")
    expect(page.locator("#id_content")).to_have_value("")  # submitted text is not restored


def drafts(page: Any) -> list[str]:
    return [key for key in page.evaluate("Object.keys(localStorage)") if key.startswith("draft ")]


def test_a_draft_lives_until_it_is_sent_discarded_or_the_person_signs_out(sign_in: SignIn, watcher: Watcher) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.goto("/")  # leaving at once, before anything was sent
    page.goto("/memories/new/")
    expect(page.locator(".draft-offer")).to_contain_text(TYPED)
    expect(page.locator("#id_content")).to_have_value("")  # offered, not filled in
    page.click("[data-restore]")
    page.fill("#id_content", "short")
    page.click("button.primary")
    page.wait_for_selector(".errorlist")  # refused by the server: the draft stays
    page.wait_for_load_state()
    page.fill("#id_content", TYPED)
    page.goto("/memories/new/")
    expect(page.locator(".draft-offer")).to_contain_text(TYPED)
    page.click("[data-discard]")
    expect(page.locator(".draft-offer")).to_have_count(0)
    assert drafts(page) == []
    page.fill("#id_content", TYPED)
    page.click(".who summary")
    page.click(".who button:has-text('Sign out')")
    page.wait_for_selector("#id_password")
    assert drafts(page) == []


def test_a_page_from_before_a_sign_in_in_another_tab_loses_no_text(sign_in: SignIn, watcher: Watcher) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.context.clear_cookies(name="csrftoken")
    page.click("button.primary")
    page.wait_for_selector("h1:has-text('The form has expired')")
    expect(page.locator("pre.typed")).to_contain_text(TYPED)
    page.click("text=Open the form again")
    page.click("[data-restore]")
    expect(page.locator("#id_content")).to_have_value(TYPED)
    page.dblclick("button.primary")
    page.wait_for_selector(".fact")
    page.wait_for_load_state()  # the draft is removed by a script
    assert drafts(page) == []


def test_fields_for_secrets_are_not_kept(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.evaluate("""() => {
        const form = document.querySelector('form.panel');
        for (const name of ['api_token', 'code']) form.append(Object.assign(document.createElement('input'), {name}));
        form.elements.code.autocomplete = 'one-time-code';
        for (const name of ['content', 'api_token', 'code']) form.elements[name].value = 'Some text for ' + name;
        form.dispatchEvent(new Event('submit', {cancelable: true}));
    }""")
    stored = page.evaluate("JSON.stringify(localStorage)")
    assert ("Some text for content" in stored, "for api_token" in stored, "for code" in stored) == (True, False, False)


def test_typed_text_is_not_restored_for_another_user(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", TYPED)
    page.context.clear_cookies()
    page.click("button.primary")
    page.goto("/sign-in/?next=/memories/new/")
    sign_in_again(page, "jonas")
    page.wait_for_url("**/memories/new/")
    expect(page.locator("#id_content")).to_have_value("")
    expect(page.locator(".draft-offer")).to_have_count(0)
    assert drafts(page) == []


def test_a_search_continues_after_signing_in_again(sign_in: SignIn) -> None:
    page = sign_in("maya")
    end_session(page)
    page.fill("#q", "gift cards")
    sign_in_again(page)
    page.wait_for_url(re.compile(r"\?q=gift"))
    expect(page.locator("#q")).to_have_value("gift cards")
    expect(page.locator(".side")).to_have_count(1)


def test_a_failed_search_shows_an_error_until_one_succeeds(sign_in: SignIn, watcher: Watcher) -> None:
    page = sign_in("maya")
    watcher.muted = page  # htmx logs the errors that this test causes
    page.route("**/?q=*", lambda route: route.fulfill(status=429, body="no"))
    page.fill("#q", "gift")
    expect(page.locator("[role=alert].told")).to_contain_text("already waiting")
    page.unroute("**/?q=*")
    page.route("**/?q=*", lambda route: route.abort())
    page.fill("#q", "gift car")
    page.wait_for_selector("text=The server did not respond")
    page.unroute("**/?q=*")
    page.fill("#q", "gift cards")
    page.wait_for_selector(".why")
    expect(page.locator(".told")).to_have_count(0)


def test_one_search_adds_one_entry_to_the_browser_history(sign_in: SignIn) -> None:
    page = sign_in("maya")
    before = page.evaluate("history.length")
    page.focus("#q")
    for part in ("gift", " cards", " used"):
        page.keyboard.type(part)
        page.wait_for_url(f"**{part.strip()}*")
    assert page.evaluate("history.length") == before + 1
    page.go_back()
    page.wait_for_url(lambda url: "q=" not in url)


def test_a_small_screen_shows_results_first_and_links_the_account(sign_in: SignIn) -> None:
    page = sign_in("maya", viewport={"width": 390, "height": 844})
    picture(page, "narrow-my-knowledge", full=False)
    assert page.locator(".card").first.bounding_box()["y"] < 700
    page.click(".menu-button")
    page.click(".who summary")
    page.click(".who a:has-text('Your account')")
    page.wait_for_url("**/account/")


def test_the_decision_bar_does_not_cover_the_claim_at_200_percent(sign_in: SignIn) -> None:
    page = sign_in("priya", viewport={"width": 640, "height": 400})
    page.goto("/review/")
    page.locator(".fact").scroll_into_view_if_needed()
    picture(page, "zoomed-review", full=False)
    claim, decision_bar = page.locator(".fact").bounding_box(), page.locator(".decide").bounding_box()
    assert decision_bar["y"] >= claim["y"] + claim["height"]


def test_a_printed_page_has_no_navigation(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    page.emulate_media(media="print")
    picture(page, "printed-review")
    for hidden in (".side", ".decide", ".tabs"):
        expect(page.locator(hidden).first).to_be_hidden()
    expect(page.locator(".fact")).to_be_visible()


def test_long_code_scrolls_inside_its_card(sign_in: SignIn) -> None:
    page = sign_in("maya", viewport={"width": 390, "height": 844})
    page.goto("/memories/new/")
    page.fill("#id_content", "Use this statement:\n\n```\nSELECT " + "very_long_column_name, " * 20 + "1\n```")
    page.click("button.primary")
    page.wait_for_selector(".fact pre")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.fact pre').scrollWidth") > 390


def test_the_copy_button_does_not_cover_the_text(sign_in: SignIn, watcher: Watcher) -> None:
    for width in (390, 1280):
        page = sign_in("maya", viewport={"width": width, "height": 900})
        page.goto("/connect/")
        text, button = (page.locator(f".paste-row {tag}").first.bounding_box() for tag in ("pre", "button"))
        assert text["x"] + text["width"] <= button["x"]


def test_filters_and_menu_of_a_small_screen_are_sheets(sign_in: SignIn) -> None:
    page = sign_in("maya", viewport={"width": 390, "height": 844})
    expect(page.locator("#facets")).to_be_hidden()
    page.click(".facets-button")
    page.click("#facets summary")
    with page.expect_response(lambda response: "/?" in response.url):
        page.click("#facets label:has-text('Stale')")
    page.wait_for_url("**status=stale**")
    page.wait_for_selector("#facets:popover-open details[open]")  # a choice leaves them open
    page.keyboard.press("Escape")
    page.click(".menu-button")
    entry = page.locator("#menu >> text=Conversations")
    expect(entry).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_selector("#menu:not(:popover-open)")
    expect(entry).to_be_visible()


def test_compact_rows_are_lower(sign_in: SignIn) -> None:
    page = sign_in("maya")
    before = page.locator("#results .card").first.bounding_box()["height"]
    page.click(".compact-toggle")
    assert page.locator("#results .card").first.bounding_box()["height"] < before
