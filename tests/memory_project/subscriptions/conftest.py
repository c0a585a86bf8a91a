from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import LazySettings

from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memory_project.exchange.subscriptions import operations, services
from memory_project.exchange.subscriptions.models import Subscription, SubscriptionRun
from tests.jobs import SubscriptionJobs, work_off

REFUNDS = "# Refunds\n\nRefunds are booked on the day of the order."
ORDERS = "# Orders\n\nAn order belongs to exactly one customer."
CLOSING = "# Closing\n\nThe books close on the third working day."


@pytest.fixture
def docs(tmp_path: Path, settings: LazySettings) -> Path:
    """An allowed folder with three files."""
    settings.COMMONPLACE_HOME = tmp_path / "home"
    settings.SUBSCRIPTION_FOLDERS = [str(tmp_path / "allowed")]
    folder = tmp_path / "allowed" / "docs"
    (folder / "adr").mkdir(parents=True)
    (folder / "refunds.md").write_text(REFUNDS)
    (folder / "adr" / "orders.md").write_text(ORDERS)
    (folder / "adr" / "closing.md").write_text(CLOSING)
    return folder


@pytest.fixture
def folder(docs: Path, ada: Caller) -> Subscription:
    return subscribe(ada, "folder", str(docs))


def subscribe(caller: Caller, kind: str, location: str, **values: Any) -> Subscription:
    operation = operations.AddSubscription.read({"name": "docs", "kind": kind, "location": location, **values})
    return services.add(caller, operation)


@pytest.fixture
def sync(ada: Caller) -> Callable[..., SubscriptionRun]:
    """Carry out a run, as a worker does."""

    def run(row: Subscription, **values: Any) -> SubscriptionRun:
        operation = operations.RunSubscription.read({"id": row.pk.hex, **values})
        queued = services.new_run(ada, operation)
        work_off(SubscriptionJobs(), queued.pk)
        queued.refresh_from_db()
        return queued

    return run


def memory_of(key: str) -> MemoryRecord:
    return MemoryRecord.objects.get(subscription_items__key=key)


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    if not (folder / ".git").exists():
        git(folder, "init")
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "docs")
