"""The daily work of users, in a real browser against a running installation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import expect

SignIn = Callable[..., Any]


def heading(page: Any) -> str:
    return str(page.inner_text("h1"))


def test_search_as_you_type(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("gift cards")
    page.wait_for_url(re.compile(r"\?q=gift\+cards"))
    page.wait_for_selector(".why")
    expect(page.locator(".cards li:first-child")).to_contain_text("gift card", ignore_case=True)
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type(" refunds")
    page.wait_for_url(re.compile("refunds"))
    page.click("#facets summary")
    page.check("input[name=category][value=business_context]", force=True)
    page.wait_for_url(re.compile("category=business_context"))
    expect(page.locator("input[name=category][value=business_context]")).to_be_checked()


def test_create_and_correct_a_memory(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.click("text=New memory")
    page.fill("#id_content", "short")
    page.click("button.primary")
    expect(page.locator(".errorlist")).to_contain_text("characters")
    page.wait_for_load_state()
    page.fill("#id_content", "The outlet in Ghent closes its books two days later.")
    page.press("#id_content", "Control+Enter")
    expect(page.locator(".fact")).to_contain_text("outlet in Ghent")
    page.click("text=Correct")
    page.fill("#id_content", "The outlet in Ghent closes its books three days later.")
    page.fill("#id_reason", "the new till")
    page.click("text=Save correction")
    expect(page.locator(".timeline del").first).to_contain_text("two", ignore_case=True)
    page.click("text=Show what the memory said")
    page.wait_for_selector("#at")
    page.wait_for_load_state()
    page.fill("#at", "0")
    page.wait_for_url(re.compile(r"\?at=0"))
    page.wait_for_selector("text=Memory at that time")
    expect(page.locator(".fact")).to_contain_text("two days")


def test_review_by_keyboard(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    first = page.url
    expect(page.locator("h1")).to_be_focused()
    page.keyboard.press("j")
    page.wait_for_url(lambda url: url != first)
    page.keyboard.press("k")
    page.wait_for_url(first)
    claim = page.inner_text(".fact")
    page.keyboard.press("n")
    page.keyboard.type("a area")  # typed into the note, so these keys decide nothing
    assert page.url == first
    page.press("#note", "Tab")
    page.keyboard.press("a")
    page.wait_for_url(lambda url: url != first)
    expect(page.locator("h1")).to_be_focused()
    expect(page.locator(".last")).to_contain_text("Approved")
    page.keyboard.press("u")
    page.wait_for_url(first)
    expect(page.locator(".fact")).to_have_text(claim, use_inner_text=True)
    page.keyboard.press("r")
    page.wait_for_selector("#note-reject:focus")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first reason
    page.wait_for_url(lambda url: url != first)
    expect(page.locator(".last")).to_contain_text("Rejected")


def test_keyboard_shortcuts_can_be_turned_off(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    address = page.url
    page.click(".keys-toggle")
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert page.url == address
    expect(page.locator(".decide kbd").first).to_be_hidden()
    page.reload()
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert page.url == address


def test_edit_approve_apply_and_roll_back_an_insight(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/all/")
    page.click("text=Pack sizes of the brand Tarn")
    page.wait_for_url(re.compile(r"/review/[0-9a-f-]{36}/"))
    page.keyboard.press("e")
    page.wait_for_selector("#id_detail-0")
    page.fill("#id_detail-0", "Pack sizes of Tarn are wrong")
    page.click("main button:text-is('Save')")
    expect(page.locator(".change ins").first).to_contain_text("Pack sizes of Tarn are wrong")
    page.wait_for_load_state()  # keys act once the page's scripts have run
    page.keyboard.press("p")
    expect(page.locator("[data-panel][open] ins").first).to_contain_text("Pack sizes of Tarn are wrong")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=View changeset")
    page.click("text=View changeset")
    page.wait_for_selector("text=Changes written")
    expect(page.locator(".head .badge")).to_have_text("Applied", use_inner_text=True)
    page.click("text=Roll back…")
    page.wait_for_selector("text=Values to be restored")
    page.click("form button.danger")
    expect(page.locator(".messages .success")).to_contain_text("returned to review")
    expect(page.locator(".head .badge")).to_have_text("Rolled back", use_inner_text=True)


def test_verify_and_forget_in_the_stale_review(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/stale/")
    cases, first_fact = page.locator(".inbox > li"), page.locator(".fact-line").first
    count, fact = cases.count(), first_fact.inner_text()
    page.keyboard.press("t")
    page.wait_for_selector(".last >> text=Verified as still true")
    expect(cases).to_have_count(count - 1)
    expect(first_fact).not_to_have_text(fact, use_inner_text=True)
    page.wait_for_load_state()
    page.keyboard.press("f")
    page.wait_for_selector(".last >> text=Forgotten")
    expect(cases).to_have_count(count - 2)


def test_mark_a_memory_as_wrong_and_withdraw_the_mark(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/?owner=&q=Lyon")
    page.click(".cards .text a >> nth=0")
    page.click("summary:has-text('Wrong')")
    page.fill("#wrong-why", "not in Lyon any more")
    page.click("text=Mark as wrong")
    page.wait_for_selector("text=You marked this memory as wrong")
    expect(page.locator(".note.warn")).to_contain_text("not in Lyon any more")
    page.click("button:text-is('Withdraw')")
    page.wait_for_selector("button:has-text('Useful')")


def test_forget_several_memories_and_undo(sign_in: SignIn) -> None:
    page = sign_in("jonas")
    page.goto("/?owner=me")
    total = page.locator(".bar [role=status]")
    before = total.inner_text()
    for index in range(3):
        page.locator(".pick").nth(index).check()
    page.click("text=Forget…")
    page.wait_for_selector("text=3 memories will be changed")
    page.click("button.primary:has-text('Forget')")
    page.wait_for_selector("text=3 of 3 done")
    page.wait_for_load_state()
    page.keyboard.press("u")
    page.wait_for_selector("h1:has-text('Undone')")
    page.goto("/?owner=me")
    expect(total).to_have_text(before, use_inner_text=True)


def test_approve_several_insights_and_undo(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/all/?category=relationship")
    page.check(".choose-all")
    count = page.locator("[name=ids]:checked").count()
    assert count > 0
    page.click("button[value=approve]")
    page.wait_for_selector(f"text={count} of {count} done")
    page.click("text=Undo all")
    page.wait_for_selector("h1:has-text('Returned to the queue')")


def test_propose_a_finding_and_clear_its_analysis(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.click("text=Analyses")
    page.click("text=what-we-know-2026")
    page.wait_for_selector("svg.chart")
    page.click("text=Propose for the catalog >> nth=0")
    page.click("main button.primary")
    page.wait_for_selector("text=Proposed. A curator will review it.")
    expect(page.locator("main")).to_contain_text("Proposed for the catalog")
    page.goto("/analyses/")
    page.click("text=what-we-know-2026")
    page.click("summary:has-text('Clear')")
    page.click("text=Delete this analysis with its records and findings")
    page.wait_for_selector("text=Deleted:")


def test_create_a_token_and_see_the_first_call_of_an_agent(sign_in: SignIn, site: str) -> None:
    page = sign_in("maya")
    page.goto("/connect/")
    page.fill("#name", "the test’s agent")
    page.click("text=Create token")
    token = page.inner_text("#token")
    page.wait_for_selector("text=Waiting for the first call")
    with ThreadPoolExecutor(1) as pool:  # Playwright occupies the event loop of this thread
        result = pool.submit(lambda: asyncio.run(recall(site, token))).result()
    assert "gift" in result
    page.wait_for_selector("text=Connected: memory_recall")
    page.goto("/activity/")
    expect(page.locator("main")).to_contain_text("memory_recall")
    page.goto("/connect/")
    expect(page.locator("#token")).to_have_count(0)
    page.click("button:has-text('Revoke') >> nth=0")
    page.wait_for_selector("text=no longer works")


async def recall(site: str, token: str) -> str:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http,
        Client(streamable_http_client(f"{site}/mcp", http_client=http)) as client,
    ):
        return str(await client.call_tool("memory_recall", {"query": "gift cards"}))


def test_invite_a_colleague(sign_in: SignIn, chromium: Any, site: str) -> None:
    page = sign_in("sam")
    page.goto("/admin/people/")
    page.fill("#email", "new.colleague@fernhill.example")
    page.check("input[name=personas] >> nth=0")
    page.click("button:has-text('Invite')")
    link = page.inner_text("#link")
    guest = chromium.new_context(base_url=site).new_page()
    guest.goto(link.replace(link.split("/password/")[0], site))
    guest.fill("#id_new_password1", "blue heron lake")
    guest.fill("#id_new_password2", "blue heron lake")
    guest.click("button.primary")
    guest.wait_for_selector("h1:has-text('My Knowledge')")
    guest.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_chosen_theme_applies_to_portal_and_admin(sign_in: SignIn, theme: str) -> None:
    page = sign_in("sam", color_scheme="dark" if theme == "light" else "light")
    page.evaluate(f"localStorage.setItem('theme', '{theme}')")
    for address in ("/", "/admin/", "/admin/memories/memoryrecord/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.dataset.theme") == theme
        colour = page.evaluate("getComputedStyle(document.body).color")
        light = sum(int(n) for n in re.findall(r"\d+", colour)[:3]) < 300
        assert light == (theme == "light"), (address, colour)
