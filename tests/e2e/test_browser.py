"""The daily work of users, in a real browser against a running installation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

SignIn = Callable[..., Any]


def heading(page: Any) -> str:
    return str(page.inner_text("h1"))


def test_search_as_you_type(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("gift cards")
    page.wait_for_url(re.compile(r"\?q=gift\+cards"))
    page.wait_for_selector(".why")
    assert "gift card" in page.inner_text(".cards li:first-child").lower()
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type(" refunds")
    page.wait_for_url(re.compile("refunds"))
    page.click("#facets summary")
    page.check("input[name=category][value=business_context]", force=True)
    page.wait_for_url(re.compile("category=business_context"))
    assert page.is_checked("input[name=category][value=business_context]")


def test_create_and_correct_a_memory(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.click("text=New memory")
    page.fill("#id_content", "short")
    page.click("button.primary")
    assert "characters" in page.inner_text(".errorlist")
    page.fill("#id_content", "The outlet in Ghent closes its books two days later.")
    page.press("#id_content", "Control+Enter")
    page.wait_for_selector(".fact")
    assert "outlet in Ghent" in page.inner_text(".fact")
    page.click("text=Correct")
    page.fill("#id_content", "The outlet in Ghent closes its books three days later.")
    page.fill("#id_reason", "the new till")
    page.click("text=Save correction")
    page.wait_for_selector(".timeline del")
    assert "two" in page.inner_text(".timeline del").lower()
    page.click("text=Show what the memory said")
    page.fill("#at", "0")
    page.wait_for_url(re.compile(r"\?at=0"))
    page.wait_for_selector("text=Memory at that time")
    assert "two days" in page.inner_text(".fact")


def test_review_by_keyboard(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    first = page.url
    assert page.evaluate("document.activeElement.tagName") == "H1"
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
    page.wait_for_function("document.activeElement.tagName == 'H1'")  # also during the redirect to the next one
    assert "Approved" in page.inner_text(".last")
    page.keyboard.press("u")
    page.wait_for_url(first)
    assert page.inner_text(".fact") == claim
    page.keyboard.press("r")
    page.wait_for_selector("#note-reject:focus")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first reason
    page.wait_for_url(lambda url: url != first)
    assert "Rejected" in page.inner_text(".last")


def test_keyboard_shortcuts_can_be_turned_off(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/review/")
    address = page.url
    page.click(".keys-toggle")
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert page.url == address
    assert not page.is_visible(".decide kbd")
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
    page.wait_for_selector(".change")
    assert "Pack sizes of Tarn are wrong" in page.inner_text(".change ins")
    page.keyboard.press("p")
    assert "Pack sizes of Tarn are wrong" in page.inner_text("[data-panel][open] ins")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=View changeset")
    page.click("text=View changeset")
    page.wait_for_selector("text=Changes written")
    assert page.inner_text(".head .badge") == "Applied"
    page.click("text=Roll back…")
    page.wait_for_selector("text=Values to be restored")
    page.click("form button.danger")
    page.wait_for_selector(".messages .success")
    assert page.inner_text(".head .badge") == "Rolled back"
    assert "returned to review" in page.inner_text(".messages")


def test_verify_and_forget_in_the_stale_review(sign_in: SignIn) -> None:
    page = sign_in("maya")
    page.goto("/stale/")
    count = page.locator(".inbox > li").count()
    fact = page.inner_text(".fact-line >> nth=0")
    page.keyboard.press("t")
    page.wait_for_selector(".last >> text=Verified as still true")
    assert page.locator(".inbox > li").count() == count - 1
    assert fact != page.inner_text(".fact-line >> nth=0")
    page.keyboard.press("f")
    page.wait_for_selector(".last >> text=Forgotten")
    assert page.locator(".inbox > li").count() == count - 2


def test_mark_a_memory_as_wrong_and_withdraw_the_mark(sign_in: SignIn) -> None:
    page = sign_in("priya")
    page.goto("/?owner=&q=Lyon")
    page.click(".cards .text a >> nth=0")
    page.click("summary:has-text('Wrong')")
    page.fill("#wrong-why", "not in Lyon any more")
    page.click("text=Mark as wrong")
    page.wait_for_selector("text=You marked this memory as wrong")
    assert "not in Lyon any more" in page.inner_text(".note.warn")
    page.click("button:text-is('Withdraw')")
    page.wait_for_selector("button:has-text('Useful')")


def test_forget_several_memories_and_undo(sign_in: SignIn) -> None:
    page = sign_in("jonas")
    page.goto("/?owner=me")
    before = page.inner_text(".bar [role=status]")
    for index in range(3):
        page.locator(".pick").nth(index).check()
    page.click("text=Forget…")
    page.wait_for_selector("text=3 memories will be changed")
    page.click("button.primary:has-text('Forget')")
    page.wait_for_selector("text=3 of 3 done")
    page.keyboard.press("u")
    page.wait_for_selector("h1:has-text('Undone')")
    page.goto("/?owner=me")
    assert page.inner_text(".bar [role=status]") == before


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
    assert "Proposed for the catalog" in page.inner_text("main")
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
    assert "memory_recall" in page.inner_text("main")
    page.goto("/connect/")
    assert page.locator("#token").count() == 0
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
