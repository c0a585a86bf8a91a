"""The REST API in a browser. The fixture `sign_in` fails a test for errors of the console and foreign requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.e2e.conftest import picture


def test_the_browsable_api_reads_and_writes(sign_in: Callable[..., Any]) -> None:
    page = sign_in("sam")
    page.goto("/connect/")
    page.click("a:has-text('browse the API')")
    page.wait_for_selector("h1:has-text('List what can be read')")
    page.goto("/api/v1/memories/?limit=2&created_by=sam@fernhill.example")
    page.click("text=Next page")
    page.locator("#answer pre a").first.click()
    page.wait_for_selector("#body-patch")
    page.wait_for_load_state()
    page.fill("#body-patch", '{"tags": ["tried"]}')
    page.click("button:has-text('PATCH')")
    page.wait_for_selector("#answer:has-text('PATCH'):has-text('200 OK'):has-text('tried')")
    picture(page, "api-memory")
    page.fill("#body-patch", '{"summary": "Tried twice."}')  # with the ETag of the first answer
    page.click("button:has-text('PATCH')")
    page.wait_for_selector("#answer:has-text('200 OK'):has-text('Tried twice.')")


def test_swagger_ui_sends_requests_with_the_session(sign_in: Callable[..., Any]) -> None:
    page = sign_in("sam")
    page.set_default_timeout(60_000)  # It renders 200 operations.
    page.goto("/api/v1/docs/")
    page.click("#operations-tag-memories")
    operation = page.locator("#operations-memories-store_note")
    operation.locator(".opblock-summary-control").click()
    operation.locator("button:has-text('Try it out')").click()
    operation.locator("textarea").first.fill('{"text": "A note from Swagger UI."}')
    operation.locator("button:has-text('Execute')").click()
    operation.locator(".live-responses-table td:has-text('201')").first.wait_for()
    picture(page, "api-swagger")


def test_redoc_shows_the_operations(sign_in: Callable[..., Any]) -> None:
    page = sign_in("sam")
    page.set_default_timeout(60_000)  # It renders 200 operations.
    page.goto("/api/v1/redoc/")
    page.locator("h2:has-text('Remember a fact')").first.wait_for()
    page.fill("input[placeholder='Search...']", "remember")
    page.locator("[role=search] [role=menuitem], .search-results, [data-role='search:results']").first.wait_for()
    picture(page, "api-redoc", full=False)
