"""The main stories by keyboard alone, and what axe can't see: the focus, announcements, contrast themes and motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

SignIn = Callable[..., Any]
MAX_STOPS = 150  # maximum number of Tab presses until an element has the focus
# What is wrong with the element that has the focus: not indicated, outside of the window, covered, or without a name.
FAULTS = """async () => {
  const element = document.activeElement;
  if (!element || element === document.body) return null;
  // until the page has scrolled
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const label = element.closest("label");
  const styleOf = (outlined) => getComputedStyle(outlined ?? element);
  const isOutlined = (part) => styleOf(part).outlineStyle !== "none" && parseFloat(styleOf(part).outlineWidth) > 0;
  const shown = getComputedStyle(element).opacity === "0" && label ? label : element;
  const box = shown.getClientRects()[0] ?? new DOMRect();
  const x = box.left + box.width / 2, y = box.top + Math.min(box.height / 2, 20);
  const top = document.elementFromPoint(x, y);
  const name = element.ariaLabel || element.getAttribute("aria-labelledby") || element.labels?.length
    || element.textContent.trim() || element.querySelector("title") || element.title;
  return [
    isOutlined(element) || isOutlined(label) ? "" : "no visible focus",
    box.right > 0 && box.bottom > 0 && x < innerWidth && y < innerHeight && y > 0 ? "" : "outside of the window",
    !top || shown.contains(top) || top.contains(shown) ? "" : `covered by ${top.outerHTML.slice(0, 60)}`,
    name ? "" : "no name",
  ].filter(Boolean).map((fault) => `${fault}: ${element.outerHTML.slice(0, 120)}`);
}"""


def tab_to(page: Any, selector: str) -> None:
    """Press Tab until an element that matches the selector has the focus."""
    for _ in range(MAX_STOPS):
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {selector} on {page.url}")


def press_enter(page: Any, selector: str) -> None:
    """Reach a link or a button with Tab, and follow it with Enter."""
    tab_to(page, selector)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def test_find_create_and_correct_by_keyboard(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.keyboard.press("/")
    page.keyboard.type("refunds")
    page.wait_for_selector(".card mark")
    press_enter(page, ".card .text a")
    expect(page.locator(".fact")).to_be_visible()
    page.goto("/memories/new/")
    tab_to(page, "#id_content")
    page.keyboard.type("The kiosk in Lille counts umbrellas as groceries.")
    press_enter(page, "main form button.primary")
    expect(page.locator(".fact")).to_contain_text("umbrellas")
    press_enter(page, "main a[href*='correct=1']")
    tab_to(page, "#id_content")
    page.keyboard.press("Control+a")
    page.keyboard.type("The kiosk in Lille counts umbrellas as fashion.")
    press_enter(page, "main form button.primary")
    expect(page.locator(".fact")).to_contain_text("fashion")


def test_propose_decide_and_apply_by_keyboard(sign_in: SignIn) -> None:
    author = sign_in("maya")
    author.goto("/insights/propose/")
    tab_to(author, "#id_content")
    author.keyboard.type("The kiosk in Dinant sells tickets of the tram.")
    press_enter(author, "main form[data-draft] button.primary")
    curator = sign_in("priya")
    curator.goto("/review/all/?q=kiosk+Dinant+tram")
    press_enter(curator, ".rows .wide a")
    address = curator.url
    press_enter(curator, "[data-key=a]")
    curator.goto(address)
    expect(curator.locator(".badge.approved").first).to_be_visible()
    if curator.locator("summary[data-key=p]").count():  # a panel that asks first
        tab_to(curator, "summary[data-key=p]")
        curator.keyboard.press("Enter")
        press_enter(curator, "details[open] button[formaction*='/apply/']")
    else:
        press_enter(curator, "[data-key=p]")
    curator.goto(address)
    expect(curator.locator(".badge.applied").first).to_be_visible()


def test_the_focus_is_always_visible(sign_in: SignIn) -> None:
    page = sign_in("priya", viewport={"width": 640, "height": 400})  # a window of 1280 px at 200 % zoom
    faults: dict[str, None] = {}
    for address in ("/?q=refunds", "/ask/?q=refunds", "/insights/propose/", "/review/", "/changesets/"):
        page.goto(address)
        for _ in range(70):
            page.keyboard.press("Tab")
            found = page.evaluate(FAULTS)
            if found is None:  # after the last stop
                break
            faults |= dict.fromkeys(f"{address}: {fault}" for fault in found)
    assert not faults, "\n".join(faults)


def test_swaps_are_announced_and_keep_the_focus(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.fill("#q", "refunds")
    page.wait_for_selector("#announcements:has-text('match')")
    facet = page.locator(".facets input").nth(1)
    facet.focus()
    facet_id = facet.get_attribute("id")
    with page.expect_response(lambda response: "/?" in response.url):
        page.keyboard.press("Space")
    page.wait_for_selector("body:not(:has(.htmx-request, .htmx-settling, .htmx-swapping))")
    page.wait_for_selector(f"#{facet_id}:focus")


ADD_PART = """() => {
  const part = document.createElement("div");
  part.id = "part";
  part.innerHTML = "<button hx-get='/swapped/' hx-target='#part' hx-swap='outerHTML'>Go on</button>";
  document.querySelector("main").append(part);
  htmx.process(part);
  part.firstChild.focus();
}"""


@pytest.mark.parametrize(
    ("body", "focused"), [("<button>Go on</button>", "#part.new > button"), ("<p>Done</p>", "#part.new")]
)
def test_the_focus_moves_to_what_replaces_its_control(sign_in: SignIn, body: str, focused: str) -> None:
    """A button that htmx replaces is found again. If it is gone, the new part gets the focus."""
    page = sign_in("maya")
    page.route("**/swapped/", lambda route: route.fulfill(body=f"<div id='part' class='new'>{body}</div>"))
    page.evaluate(ADD_PART)
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{focused}:focus")


def test_a_message_is_announced_after_a_form(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/memories/new/")
    page.fill("#id_content", "The kiosk in Huy opens at seven on market days.")
    page.click("main form button.primary")
    page.wait_for_selector("#announcements:not(:empty)")
    expect(page.locator("#announcements")).to_have_text(page.inner_text(".messages").strip(), use_inner_text=True)


MOVING = """() => {
  document.querySelector("main").insertAdjacentHTML("beforeend", "<p class='waiting'>Waiting</p>");
  const moves = (element, part) => {
    const style = getComputedStyle(element, part);
    return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
  };
  return [null, "::before", "::after"].flatMap((part) => [...document.querySelectorAll("*")]
    .filter((element) => moves(element, part)).map((element) => element.outerHTML.slice(0, 80)));
}"""


def test_nothing_moves_if_the_person_prefers_it_so(sign_in: SignIn) -> None:
    page = sign_in("maya", reduced_motion="reduce")
    page.goto("/connect/")
    assert page.evaluate(MOVING) == []
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(MOVING)  # there is something to stop


OUTLINE = "selector => getComputedStyle(document.querySelector(selector)).outlineStyle"
COLORS = """selector => {
  const style = getComputedStyle(document.querySelector(selector));
  return [style.color, style.backgroundColor];
}"""
NODE_NAMES = "() => [...document.querySelectorAll('svg .node-name')].map((name) => getComputedStyle(name).fill)"


def test_a_contrast_theme_shows_what_is_chosen_and_what_has_the_focus(sign_in: SignIn) -> None:
    page = sign_in("maya", forced_colors="active")
    page.goto("/?q=refunds")
    assert page.evaluate(OUTLINE, ".side [aria-current]") == "solid"
    assert page.evaluate(OUTLINE, ".facets label:has(:checked)") == "solid"
    assert page.evaluate(OUTLINE, ".facets label:not(:has(:checked))") == "none"
    text, background = page.evaluate(COLORS, ".primary")
    assert text != background
    canvas_text, _ = page.evaluate(COLORS, "main")
    page.goto("/graph/")  # the system does not choose the colors of SVG
    assert set(page.evaluate(NODE_NAMES)) <= {canvas_text}


def test_pages_reflow_at_320_px(sign_in: SignIn) -> None:
    page = sign_in("priya", viewport={"width": 320, "height": 700})  # 1280 px at 400 % zoom
    faults = []
    for address in ("/", "/ask/?q=refunds", "/memories/new/", "/insights/propose/", "/review/", "/changesets/"):
        page.goto(address)
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        faults += [f"{address}: {wider} px too wide"] if wider > 0 else []
    assert not faults, "\n".join(faults)
