"""Ten everyday tasks, each by the clicks and keys that a person needs. Typing a text counts for nothing.

A page that needs one step more makes its task fail, because the script takes none. Whoever adds a step to a script
raises the numbers, and has to say why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.conftest import WORKER_WITHIN

SignIn = Callable[..., Any]


class Hands:
    """Counts the clicks and keys of a task. `Control+Enter` is one key."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0
        self.keys = 0

    def click(self, selector: str) -> None:
        self.clicks += 1
        self.page.click(selector)

    def choose(self, selector: str, value: str) -> None:
        """Choose from a list: a click opens it, and another one takes the value."""
        self.clicks += 2
        self.page.select_option(selector, value)

    def press(self, key: str) -> None:
        self.keys += 1
        self.page.keyboard.press(key)

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)

    @property
    def effort(self) -> tuple[int, int]:
        return self.clicks, self.keys


def start(sign_in: SignIn, person: str, path: str = "/") -> Hands:
    page = sign_in(person)
    page.goto(path)
    return Hands(page)


def write(hands: Hands, text: str) -> None:
    hands.click("text=New memory")
    hands.page.wait_for_selector("#id_content:focus")
    hands.type(text)
    hands.click("main button.primary")
    hands.page.wait_for_selector("h1.fact")


def test_find_a_fact(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    hands.press("/")
    hands.type("gift cards")
    hands.page.wait_for_url(re.compile(r"\?q=gift\+cards"))
    hands.page.wait_for_selector(".cards li mark")
    assert hands.effort == (0, 1)


def test_write_a_memory(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    write(hands, "The outlet in Bruges sends its sales.orders rows an hour late.")
    assert hands.effort == (2, 0)


def test_say_what_a_memory_is_about(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    write(hands, "Closing balances of the outlet in Namur arrive on paper.")
    before = hands.clicks
    hands.click(".about button >> nth=0")
    hands.page.wait_for_selector(".about", state="detached")
    assert hands.clicks - before == 1


def test_correct_a_memory(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    write(hands, "The outlet in Liège closes its sales.orders two days later.")
    before = hands.clicks
    hands.click("text=Correct")
    hands.page.wait_for_selector("#id_content:focus")
    hands.press("Control+End")
    hands.type(" Since May, three.")
    hands.click("text=Save correction")
    hands.page.wait_for_selector(".timeline ins")
    assert hands.clicks - before == 2


def test_share_a_memory_with_everyone(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    write(hands, "The outlet in Mons pays its sales.refunds in cash.")
    before = hands.clicks
    hands.choose("#visibility", "everyone")
    hands.click("section[aria-labelledby=readers] form:has(#visibility) button")
    hands.page.wait_for_selector(".messages >> text=Everyone may read the memory now.")
    assert hands.clicks - before == 3


def test_propose_a_memory_for_the_catalog(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    write(hands, "The outlet in Arlon books its sales.returns as sales.")
    before = hands.clicks
    hands.click("text=Propose for the catalog")
    hands.page.wait_for_selector("#preview")
    hands.click("main button.primary:has-text('Propose')")
    hands.page.wait_for_selector(".messages >> text=Proposed.")
    assert hands.clicks - before == 2


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "notes.csv"
    path.write_text("content,entities\nThe outlet in Huy has no till of its own.,fernhill.sales.orders\n")
    return path


def test_import_a_file_and_undo_it(sign_in: SignIn, small_file: Path) -> None:
    hands = start(sign_in, "maya")
    hands.click("text=Import")
    hands.clicks += 1  # the button that opens the system's dialog for files
    hands.page.set_input_files("input[type=file]", small_file)
    hands.click("main form:has(input[type=file]) button.primary")
    hands.page.wait_for_selector("text=Import 1 memory", timeout=WORKER_WITHIN)
    hands.click("text=Import 1 memory")
    hands.page.wait_for_selector("text=Undo this import", timeout=WORKER_WITHIN)
    assert hands.clicks == 4
    before = hands.clicks
    hands.click("text=Undo this import")
    hands.page.wait_for_selector("text=Undo this import", state="detached", timeout=WORKER_WITHIN)
    assert hands.clicks - before == 1


def test_connect_an_agent(sign_in: SignIn) -> None:
    hands = start(sign_in, "maya")
    hands.click(".side summary:has-text('Maya')")
    hands.click(".side a:has-text('Connect an agent')")
    hands.page.focus("#name")
    hands.type("Claude on my laptop")
    hands.press("Enter")
    hands.page.wait_for_selector("text=Your new token")
    assert hands.effort == (2, 1)


def test_approve_apply_and_roll_back(sign_in: SignIn) -> None:
    hands = start(sign_in, "priya", "/review/")
    first = hands.page.url
    hands.press("a")
    hands.page.wait_for_url(lambda url: url != first)
    assert hands.effort == (0, 1)
    hands.press("u")
    hands.page.wait_for_url(first)
    hands.press("p")
    hands.page.wait_for_selector("[data-panel][open] ins")
    hands.press("Control+Enter")
    hands.page.wait_for_selector("text=View changeset")
    assert hands.effort == (0, 4)
    hands.click("text=View changeset")
    hands.click("text=Roll back…")
    hands.click("form button.danger")
    hands.page.wait_for_selector(".messages .success")
    assert hands.effort == (3, 4)


def test_reject_with_a_reason_of_ones_own(sign_in: SignIn) -> None:
    hands = start(sign_in, "priya", "/review/")
    first = hands.page.url
    hands.press("r")
    hands.page.wait_for_selector("#note-reject:focus")
    hands.type("already known, see the handbook")  # letters that are keys of the page decide nothing
    assert hands.page.url == first
    hands.press("Control+Enter")
    hands.page.wait_for_url(lambda url: url != first)
    expect(hands.page.locator(".last")).to_contain_text("Rejected")
    assert hands.effort == (0, 2)
