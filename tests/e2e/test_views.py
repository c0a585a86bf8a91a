"""The views of MCP Apps in a browser: a minimal host shows them in a sandbox and forwards their calls to /mcp."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.e2e.accessibility import violations
from tests.e2e.conftest import TIMEOUT, picture
from tests.e2e.processes import ROOT, command, environment

HOST = (Path(__file__).parent / "mcp_host.html").read_text()
# what the specification tells hosts to allow a view that names no domains
POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
CAPABILITIES = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
HOSTILE = "<img src=x onerror=\"document.body.textContent='taken over'\"><script>alert(1)</script> refunds are free"


class Connection:
    """A client of the revision 2025-11-25 over HTTP, which declares the extension once."""

    def __init__(self, site: str, token: str) -> None:
        self.address = f"{site}/mcp"
        self.headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        info = {"name": "minimal", "version": "1"}
        first = self._post(
            "initialize", {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        )
        self.headers["Mcp-Session-Id"] = first.headers["Mcp-Session-Id"]
        tools = self.request("tools/list", {})["tools"]
        self.views = {tool["name"]: tool["_meta"]["ui"]["resourceUri"] for tool in tools if "_meta" in tool}

    def _post(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx2.post(self.address, json=body, headers=self.headers, timeout=30)
        return answer.raise_for_status()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        lines = [line[6:] for line in self._post(method, params).text.splitlines() if line.startswith("data: {")]
        return dict(json.loads(lines[-1])["result"])

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def document(self, tool: str) -> str:
        return str(self.request("resources/read", {"uri": self.views[tool]})["contents"][0]["text"])


def connect(site: str, home: Path, login: str) -> Connection:
    port = int(site.rpartition(":")[2])
    arguments = command("createtoken", f"{login}@fernhill.example")
    done = subprocess.run(arguments, env=environment(home, port), cwd=ROOT, capture_output=True, text=True, check=True)
    return Connection(site, done.stdout.strip())


Show = Callable[..., Any]


@pytest.fixture(scope="module")
def priya(site: str, home: Path) -> Connection:
    return connect(site, home, "priya")


@pytest.fixture(scope="module")
def sam(site: str, home: Path) -> Connection:
    return connect(site, home, "sam")


@pytest.fixture
def show(chromium: Any, priya: Connection) -> Iterator[Show]:
    """Show the view of a tool's result in the host. Returns the frame. At the end, no error may have been reported."""
    context = chromium.new_context(viewport={"width": 360, "height": 900}, reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.route("https://host.example/", lambda route: route.fulfill(body=HOST, content_type="text/html"))
    page.expose_function("call", priya.call)

    def open_view(tool: str, arguments: dict[str, Any], theme: str = "light", result: Any = None, **given: Any) -> Any:
        page.goto("https://host.example/")
        shown = {"input": arguments, "result": result or priya.call(tool, arguments), "theme": theme, **given}
        html = priya.document(tool).replace(
            "<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        )
        page.evaluate("([html, given]) => show(html, given)", [html, shown])
        page.frame_locator("iframe").locator("#status").wait_for(state="attached")
        return page.frame_locator("iframe")

    open_view.page = page  # type: ignore[attr-defined]
    yield open_view
    context.close()
    assert faults == []


def check(page: Any, name: str) -> None:
    """Check the view with axe, and that it fits into 360 px. Save a screenshot."""
    picture(page, f"app-{name}")
    frame = page.frames[1]
    assert frame.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    assert violations(frame, None) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_recall(show: Show, priya: Connection, theme: str) -> None:
    frame = show("memory_recall", {"query": "revenue orders", "explain": True}, theme)
    first = frame.locator(".card").first
    first.get_by_role("button", name="Useful", exact=True).click()
    first.locator("[data-field=message]").wait_for()
    check(show.page, f"recall-{theme}")  # type: ignore[attr-defined]
    first.get_by_role("button", name="Open in the portal").click()
    show.page.wait_for_function("seen.some(({method}) => method === 'ui/open-link')")  # type: ignore[attr-defined]
    (link,) = show.page.evaluate("seen.filter(({method}) => method === 'ui/open-link')")  # type: ignore[attr-defined]
    assert link["params"]["url"].startswith(f"{priya.address.removesuffix('/mcp')}/memories/")


def test_texts_stay_texts(show: Show, priya: Connection) -> None:
    priya.call("memory_manage", {"command": "remember", "content": HOSTILE})
    frame = show("memory_recall", {"query": "refunds are free"})
    frame.get_by_text(HOSTILE).wait_for()
    expect(frame.locator("img")).to_have_count(0)


def test_invisible_characters_are_shown_as_code_points(show: Show) -> None:
    memory = {"id": "0" * 32, "content": "Refunds are\u202e free\U000e0041", "created_by": "x\u200b@example.org"}
    frame = show("memory_recall", {}, result={"structuredContent": {"memories": [memory]}, "content": []})
    frame.get_by_text("Refunds are⟦U+202E⟧ free⟦U+E0041⟧").wait_for()
    frame.get_by_text("x⟦U+200B⟧@example.org").wait_for()


def test_view_takes_the_colors_of_the_host(show: Show) -> None:
    variables = {"--color-background-secondary": "rgb(1, 2, 3)"}
    frame = show("memory_recall", {"query": "revenue"}, variables=variables)
    frame.locator(".card").first.wait_for()
    color = frame.locator("html").evaluate("element => getComputedStyle(element).backgroundColor")
    assert color == "rgb(1, 2, 3)"


def waiting_insight(priya: Connection) -> tuple[str, dict[str, Any]]:
    """Return an entity and one of its waiting insights."""
    for row in priya.call("apply_knowledge", {"action": "bulk_review"})["structuredContent"]["by_entity"]:
        arguments = {"action": "review", "entity_urn": row["urn"]}
        for insight in priya.call("apply_knowledge", arguments)["structuredContent"]["insights"]:
            if insight["state"] == "pending":
                return row["urn"], insight
    raise AssertionError("the demo content has no waiting insight")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_queue_and_review(show: Show, theme: str) -> None:
    frame = show("apply_knowledge", {"action": "bulk_review"}, theme)
    check(show.page, f"queue-{theme}")  # type: ignore[attr-defined]
    frame.get_by_role("button", name="Show").first.click()
    frame.get_by_role("heading", name="Review:").wait_for()
    card = frame.locator(".card", has=frame.locator("[data-act=reject]:visible")).first
    card.get_by_role("button", name="Reject").click()
    card.get_by_text("Write the reason first.").wait_for()
    check(show.page, f"review-{theme}")  # type: ignore[attr-defined]


def test_decision_of_somebody_else_is_shown(show: Show, priya: Connection, sam: Connection) -> None:
    urn, insight = waiting_insight(priya)
    frame = show("apply_knowledge", {"action": "review", "entity_urn": urn})
    card = frame.locator(".card", has_text=insight["insight_text"][:40]).first
    card.get_by_role("button", name="Approve").wait_for()
    rejected = {"action": "reject", "insight_ids": [insight["id"]], "review_notes": "A duplicate of an earlier one."}
    assert not sam.call("apply_knowledge", rejected).get("isError")
    card.get_by_role("button", name="Approve").click()
    frame.locator("#status", has_text="Not decided").wait_for()
    frame.locator(".card", has_text="rejected by sam@fernhill.example").first.wait_for()


def test_approve_apply_and_roll_back(show: Show, priya: Connection) -> None:
    urn, insight = waiting_insight(priya)
    frame = show("apply_knowledge", {"action": "review", "entity_urn": urn})
    card = frame.locator(".card", has_text=insight["insight_text"][:40]).first
    card.get_by_role("button", name="Approve").click()
    card.get_by_role("button", name="Preview the changes").click()
    frame.get_by_role("heading", name="Preview of changes").wait_for()
    check(show.page, "changeset-preview")  # type: ignore[attr-defined]
    frame.get_by_role("button", name="Apply").click()
    changesets = {"action": "list_changesets", "entity_urn": urn}
    before = priya.call("apply_knowledge", changesets)["structuredContent"]["total"]
    frame.get_by_role("button", name="Yes, apply").click()
    frame.get_by_role("heading", name="Changeset: applied").wait_for()
    assert priya.call("apply_knowledge", changesets)["structuredContent"]["total"] == before + 1
    frame.get_by_role("button", name="Preview a rollback").click()
    frame.get_by_role("button", name="Roll back").click()
    frame.get_by_role("button", name="Yes, roll back").click()
    frame.get_by_role("heading", name="Changeset: rolled back").wait_for()
    check(show.page, "changeset-rolled-back")  # type: ignore[attr-defined]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_changeset(show: Show, theme: str) -> None:
    frame = show("apply_knowledge", {"action": "list_changesets"}, theme)
    frame.get_by_role("button", name="Show").first.click()
    frame.get_by_role("heading", name="Changeset:").wait_for()
    check(show.page, f"changeset-{theme}")  # type: ignore[attr-defined]


def test_errors_are_shown_in_place(show: Show) -> None:
    error = {"isError": True, "content": [{"type": "text", "text": '{"error": "too many calls", "code": "limit"}'}]}
    frame = show("memory_recall", {"query": "x"}, result=error)
    frame.get_by_text("too many calls").wait_for()
