"""Count the modules that one tool call passes through, from its handler down to SQL.

    python bench/readability/trace.py [--files]

Calls tools on a temporary database with a small catalog and prints, for each call, the number of distinct modules
entered and how often control moves from one module into another. Only modules of the four apps count. The
foundation, models and migrations are excluded because every call uses them. `--files` also lists the modules in
the order in which they are entered.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import scratch

APPS = ("foundation", "memories", "knowledge", "analysis", "memory_project")
SHARED = {"foundation", "postgres", "models", "migrations"}
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"


class Trace:
    """The modules entered by one call, in order, and the number of calls from one module into another."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.crossings = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call":
            return
        module = module_of(frame)
        if not module:
            return
        if module not in self.modules:
            self.modules.append(module)
        if nearest_module(frame.f_back) not in ("", module):
            self.crossings += 1


def module_of(frame: FrameType) -> str:
    """Return the dotted name of the frame's module, or an empty string if the module does not count."""
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(scratch.ROOT):
        return ""
    parts = path.relative_to(scratch.ROOT).with_suffix("").parts
    if parts[0] not in APPS or SHARED & set(parts):
        return ""
    return ".".join(parts)


def nearest_module(frame: FrameType | None) -> str:
    while frame is not None:
        if module := module_of(frame):
            return module
        frame = frame.f_back
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true", help="list the modules entered")
    options = parser.parse_args()
    os.environ.setdefault("EMBEDDING_PROVIDER", "deterministic")
    scratch.setup()
    with scratch.database():
        print(f"{'call':12} {'modules':>8} {'crossings':>10}")
        for title, trace in measure():
            print(f"{title:12} {len(trace.modules):8} {trace.crossings:10}")
            if options.files:
                print("".join(f"    {module}\n" for module in trace.modules), end="")


def measure() -> Iterator[tuple[str, Trace]]:
    from memory_project.mcp.tool_list import enabled_tools  # noqa: PLC0415 - after setup()

    tools: dict[str, Callable[..., Any]] = {tool.name: tool for tool in enabled_tools(["all"])}
    author, admin = people()
    fill_catalog()

    def traced(title: str, caller: Any, tool: str, *choice: str, **arguments: Any) -> Any:
        trace = Trace()
        with trace.running():
            response = tools[tool](caller, *choice, **arguments)
        traces.append((title, trace))
        return getattr(response, "data", response)

    traces: list[tuple[str, Trace]] = []
    content = "Revenue in the sales mart excludes refunds."
    tools["memory_manage"](author, "remember", content="The warehouse is loaded every night at two.")
    memory = traced("remember", author, "memory_manage", "remember", content=content, entity_urns=[ORDERS])
    traced("recall", author, "memory_recall", query="Does revenue include refunds?")
    traced("update", author, "memory_manage", "update", id=memory["id"], content=content + " Since May.")
    insight = traced(
        "capture",
        author,
        "capture_insight",
        insight_text="Orders are counted once they are paid.",
        category="data_quality",
        entity_urns=[ORDERS],
    )
    identity = insight["insight_id"]
    traced("approve", admin, "apply_knowledge", "approve", insight_ids=[identity])
    changes = [{"change_type": "update_description", "target": "", "detail": "Orders after payment."}]
    traced(
        "apply",
        admin,
        "apply_knowledge",
        "apply",
        insight_ids=[identity],
        changes=changes,
        entity_urn=ORDERS,
        confirm=True,
    )
    traced("entity", author, "catalog_entity", urn=ORDERS)
    yield from traces


def people() -> tuple[Any, Any]:
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    author = User.objects.create_user("author@bench.example", None)
    admin = User.objects.create_user("admin@bench.example", None, is_superuser=True)
    return build_caller(author, channel="bench"), build_caller(admin, channel="bench")


def fill_catalog() -> None:
    from knowledge.catalog.embedded import LocalCatalog  # noqa: PLC0415 - after setup()

    properties = {"name": "orders", "qualifiedName": "sales.orders", "description": "Orders.", "customProperties": {}}
    LocalCatalog().put(ORDERS, "datasetProperties", {**properties, "tags": []}, {})


if __name__ == "__main__":
    main()
