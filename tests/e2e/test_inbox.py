"""The inbox by keyboard: cases of every kind are decided, undone and decided together."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.case_samples import COUNT, SAMPLES
from tests.e2e.conftest import Watcher, picture, signed_in
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, up

MAKE = """
from foundation.people.permissions import build_caller
from memory_project.models import User
from tests.case_samples import SAMPLES
from foundation.database import identity

person, colleague = (
    build_caller(User.objects.get(email=f"{{name}}@fernhill.example"), channel="command") for name in ("sam", "maya")
)
for name in {names}:
    with identity.acting_as(person):
        SAMPLES[name].make(person, colleague)
"""


def make(home: Path, port: int, *names: str) -> None:
    made = subprocess.run(
        command("shell", "--no-imports", "--command", MAKE.format(names=names)),
        env=environment(home, port),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[Path, int]]:
    """Yield the folder and the port of an installation in which Sam, an admin, has cases of each kind."""
    with prepared_home("demo") as (home, port), up(home, port):
        make(home, port, *SAMPLES)
        yield home, port


@pytest.fixture(scope="module")
def page(chromium: Any, place: tuple[Path, int]) -> Iterator[Any]:
    site = f"http://localhost:{place[1]}"
    watcher = Watcher(site)
    page = signed_in(chromium, site, watcher, "sam")
    yield page
    page.context.close()
    assert not watcher.faults, "\n".join(watcher.faults)


def cases(page: Any) -> list[str]:
    found: list[str] = page.locator(".inbox > li").evaluate_all("rows => rows.map(row => row.id)")
    return found


def press(page: Any, key: str) -> None:
    """Press a key that decides, or undoes, and wait for the next page."""
    with page.expect_navigation():
        page.keyboard.press(key)


@pytest.mark.parametrize("name", SAMPLES)
def test_cases_of_each_kind_are_decided_undone_and_decided_together(page: Any, name: str) -> None:
    sample = SAMPLES[name]
    page.goto(f"/inbox/?kind={name}")
    before = cases(page)
    assert len(before) >= COUNT
    picture(page, f"inbox-{name}")
    page.keyboard.press("j")
    page.keyboard.press("j")  # the keys act on the second case
    press(page, sample.key)
    assert cases(page) == [before[0], *before[2:]]
    expect(page.locator(f"[id='{before[2]}']")).to_be_focused()  # the keys go on with the case that has its place
    page.wait_for_selector("#said >> text=Undo", state="attached")  # what screen readers say
    press(page, "u")
    assert sorted(cases(page)) == sorted(before)  # a tool that was decided about has changed last
    before = cases(page)
    for _ in range(2):
        page.keyboard.press("j")
        page.keyboard.press("x")
    page.focus(f".bulkbar button[formaction$='/{sample.many}/']")
    press(page, "Enter")
    assert cases(page) == before[2:]
    press(page, "u")
    assert sorted(cases(page)) == sorted(before)


def test_a_whole_page_is_selected_and_enter_on_a_box_decides_nothing(page: Any) -> None:
    page.goto("/inbox/?kind=suggestion")
    before = cases(page)
    page.check(".choose-all")
    expect(page.locator(".inbox .pick:checked")).to_have_count(len(before))
    page.focus(".inbox > li:first-child .pick")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert cases(page) == before


def test_after_escape_the_keys_act_on_the_case_that_was_typed_in(page: Any) -> None:
    page.goto("/inbox/?kind=suggestion")
    before = cases(page)
    page.click(".inbox > li:nth-child(2) details:last-of-type summary")
    page.fill(".inbox > li:nth-child(2) textarea", "Another text.")
    page.keyboard.press("Escape")
    press(page, "d")
    assert cases(page) == [before[0], *before[2:]]
    press(page, "u")


def test_typing_decides_nothing(page: Any) -> None:
    for name in ("suggestion", "contradiction", "question"):
        page.goto(f"/inbox/?kind={name}")
        before = cases(page)
        assert len(before) == COUNT
        entries = ".inbox > li:first-child :is(textarea, input[type=text]):visible"
        for summary in page.locator(".inbox > li:first-child details summary").all():
            summary.click()
            for number in range(page.locator(entries).count()):
                entry = page.locator(entries).nth(number)
                if entry.is_visible():
                    entry.click()
                    page.keyboard.type("already known to all: 120")
            page.keyboard.press("Escape")
        assert page.url.endswith(f"/inbox/?kind={name}")
        assert cases(page) == before
        page.reload()
        assert cases(page) == before


def test_all_kinds_are_on_one_page_that_leads_on(page: Any) -> None:
    page.goto("/inbox/")
    picture(page, "inbox")
    titles = page.locator("nav.tabs a").all_text_contents()
    assert len(titles) > len(SAMPLES)  # one for all, too
    seen = cases(page)
    with page.expect_navigation():
        page.click(".next a")
    following = cases(page)
    assert following
    assert not set(following) & set(seen)
