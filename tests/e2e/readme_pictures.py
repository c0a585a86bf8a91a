"""The pictures of the README: a new installation with the demo, and its pages in Chromium.

    make pictures        writes docs/img/*.png

Pages differ with the day, so no test compares them. tests/test_docs.py compares the names with those in the README.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tests.e2e.conftest import Watcher, launched, signed_in
from tests.e2e.processes import ROOT, folder_and_port, up

FOLDER = ROOT / "docs" / "img"
WINDOW = {"width": 1440, "height": 900}
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"


@dataclass(frozen=True)
class Picture:
    person: str
    path: str
    colors: Literal["light", "dark"] = "light"


PICTURES = {
    "my-knowledge": Picture("maya", "/?q=refunds"),
    "review": Picture("priya", "/review/"),
    "inbox": Picture("jonas", "/inbox/"),
    "entity": Picture("maya", f"/knowledge/entity/?urn={ORDERS}"),
    "admin": Picture("sam", "/admin/knowledge/insight/"),
    "dashboard": Picture("sam", "/admin/", "dark"),
}


def take(browser: Any, site: str, name: str, wanted: Picture) -> None:
    watcher = Watcher(site)
    page = signed_in(browser, site, watcher, wanted.person, viewport=WINDOW, color_scheme=wanted.colors)
    page.goto(wanted.path)
    page.wait_for_load_state("networkidle")
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= WINDOW["width"], f"{name} is {width} pixels wide, so the picture would be cut off"
    assert not watcher.faults, "\n".join(watcher.faults)
    page.screenshot(path=FOLDER / f"{name}.png")
    page.context.close()


def main() -> None:
    model = {"EMBEDDING_PROVIDER": "minilm"}  # the default, so that similar memories are those that a user sees
    with folder_and_port() as (home, port), up(home, port, **model), launched() as browser:
        for name, wanted in PICTURES.items():
            take(browser, f"http://localhost:{port}", name, wanted)
            print(f"docs/img/{name}.png")


if __name__ == "__main__":
    main()
