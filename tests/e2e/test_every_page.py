"""Every page of the portal and the admin in a real browser.

Checks the content security policy, that nothing is loaded from other hosts, that nothing is wider than the window, and
that axe finds no accessibility violation. With SCREENSHOTS=1, saves screenshots in var/screenshots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.urls import URLPattern, get_resolver, resolve

from tests.e2e.accessibility import NO_PAGES, START, name_of, violations
from tests.e2e.conftest import WINDOW, Watcher, picture, signed_in

ABSOLUTE = "all => all.map(a => new URL(a.getAttribute('href'), document.baseURI).href)"
# Turns the page around for a measurement, as a language that is written from right to left does.
FROM_RIGHT_TO_LEFT = """() => {
  const root = document.documentElement;
  root.dir = "rtl";
  const wider = root.scrollWidth - root.clientWidth;
  root.dir = "ltr";
  return wider;
}"""
MAX_FIRST_LOAD = 150_000  # bytes transferred, after compression


@dataclass
class Visit:
    """One address per route, found by following the links that an admin sees, and the faults of all these pages."""

    addresses: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=lambda: list(START))

    def open_next(self, page: Any) -> str:
        """Begin to load the next page that has a new route. Returns its address, or an empty string at the end."""
        while self.waiting:
            address = self.waiting.pop(0)
            route = name_of(address)
            key = f"{route} {address}" if address in START else route
            if route and route not in NO_PAGES and key not in self.addresses:
                self.addresses[key] = address
                page.set_viewport_size(WINDOW)
                page.emulate_media(color_scheme="light")
                page.goto(address, wait_until="commit")
                return address
        return ""

    def follow_links(self, page: Any) -> None:
        links = page.eval_on_selector_all("a[href]:not([download])", ABSOLUTE)
        self.waiting += [to_local_path(page, link) for link in links]


@pytest.fixture(scope="module")
def visit(chromium: Any, site: str) -> Visit:
    """Visit all pages in two tabs: while one page is checked, the next one is loaded."""
    visit, watcher = Visit(), Watcher(site)
    # axe can't judge the contrast of colours in transition
    tab = signed_in(chromium, site, watcher, "sam", reduced_motion="reduce")
    other_tab = tab.context.new_page()
    watcher.watch(other_tab)
    address = visit.open_next(tab)
    while address:
        tab.wait_for_load_state("networkidle")
        visit.follow_links(tab)
        next_address = visit.open_next(other_tab)
        watcher.muted = tab
        visit.faults += faults_of(tab, address)
        watcher.muted = None
        tab, other_tab, address = other_tab, tab, next_address
    tab.context.close()
    visit.faults += watcher.faults
    return visit


def to_local_path(page: Any, link: str) -> str:
    """Return the link's path and query if it is on this site, otherwise an empty string."""
    parts = urlsplit(link)
    page_parts = urlsplit(page.url)
    return f"{parts.path}?{parts.query}".rstrip("?") if parts.netloc == page_parts.netloc else ""


def names(patterns: Any) -> set[str]:
    route_names: set[str] = set()
    for entry in patterns:
        route_names |= {entry.name or ""} if isinstance(entry, URLPattern) else names(entry.url_patterns)
    return route_names


def test_the_links_reach_every_route(visit: Visit) -> None:
    routes = {name for name in names(get_resolver().url_patterns) if name} - NO_PAGES
    routes -= {name for name in routes if name.startswith("api-")}  # for programs
    # Change forms of tables exist only for some rows; testing their lists is enough.
    tables = {name for name in routes if name.endswith(("_add", "_change", "_delete", "_history"))} | {"app_list"}
    missing = routes - tables - {name_of(address) for address in visit.addresses.values()}
    assert missing == set()


def test_every_page_in_light_dark_and_narrow_layouts(visit: Visit) -> None:
    assert not visit.faults, "\n".join(visit.faults)


def faults_of(page: Any, address: str) -> list[str]:
    name = name_of(address) + ("-filtered" if "?" in address else "")
    # In Django's own tables and forms, exclude the parts that we don't style.
    is_table = "admin:" in resolve(urlsplit(address).path).view_name and page.locator("#content-start").count()
    scope = {"exclude": [["#changelist"], ["#content-main"], [".breadcrumbs"]]} if is_table else None
    faults = [f"{address} light: {fault}" for fault in violations(page, scope)]
    picture(page, f"{name}-light")
    page.emulate_media(color_scheme="dark")
    if not is_table:  # they share the colours of the others
        faults += [f"{address} dark: {fault}" for fault in violations(page, scope, rules=["color-contrast"])]
    picture(page, f"{name}-dark")
    page.emulate_media(color_scheme="light")
    # 390 px is a phone. 640 px is a window of 1280 px at 200 % zoom.
    for width in () if is_table else (640, 390):
        page.set_viewport_size({"width": width, "height": 844})
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        if wider > 0:
            faults.append(f"{address} at {width} px: {wider} px too wide")
        wider = page.evaluate(FROM_RIGHT_TO_LEFT)
        if wider > 0:
            faults.append(f"{address} from right to left at {width} px: {wider} px too wide")
    picture(page, f"{name}-small")
    return faults


def test_signed_out_pages(chromium: Any, site: str) -> None:
    page = chromium.new_context(base_url=site).new_page()
    for address in ("/sign-in/", "/password/forgot/", "/password/sent/", "/password/x/y/"):
        page.goto(address)
        assert violations(page, None) == [], address
        picture(page, f"{name_of(address)}-light")
    page.context.close()


def test_the_first_load_is_small(chromium: Any, site: str) -> None:
    """Counts the bytes transferred for the sign-in page and My Knowledge together."""
    context = chromium.new_context(base_url=site)
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    received: list[float] = []
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    page.goto("/sign-in/")
    page.fill("#id_username", "maya@fernhill.example")
    page.fill("#id_password", "fern-demo-2025")
    page.click("button.primary")
    page.wait_for_load_state("networkidle")
    context.close()
    assert 0 < sum(received) <= MAX_FIRST_LOAD, sum(received)


def test_animations_are_off_if_the_user_prefers_reduced_motion(sign_in: Callable[..., Any]) -> None:
    page = sign_in("maya", reduced_motion="reduce")
    page.goto("/connect/")
    names = page.evaluate("[...document.querySelectorAll('*')].map(e => getComputedStyle(e).animationName)")
    assert set(names) == {"none"}
