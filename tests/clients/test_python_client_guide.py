"""The examples of docs/python-client.md, run in order against a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from knowledge.catalog import metadata_files
from knowledge.freshness import catalog_load
from knowledge.models import Changeset
from memories.models import MemoryRecord
from memory_project.models import User
from memory_project.operating import demo
from tests.clients.in_process import token_of
from tests.knowledge.conftest import cora_user, curators  # noqa: F401 - fixtures
from tests.memory_project.conftest import http  # noqa: F401 - a fixture

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "python-client.md"


@pytest.mark.django_db(transaction=True)
def test_the_examples_of_the_guide_run(
    http: str,  # noqa: F811
    alice_user: User,
    cora_user: User,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    list(catalog_load.load(metadata_files.read_file(demo.FOLDER / "catalog.json")))
    monkeypatch.setenv("COMMONPLACE_URL", http)
    monkeypatch.setenv("COMMONPLACE_TOKEN", token_of(alice_user))
    monkeypatch.setenv("CURATOR_TOKEN", token_of(cora_user))
    names: dict[str, Any] = {}
    text = GUIDE.read_text()
    for example in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, example.start()) + 1
        exec(compile("\n" * line + example[1], str(GUIDE), "exec"), names)
    printed = capsys.readouterr().out
    names["client"].close()
    names["curator"].close()
    for expected in (alice_user.email, "Revenue in the sales mart excludes refunds.", "content 10 to 4000", "true"):
        assert expected in printed
    assert MemoryRecord.objects.filter(
        content="Revenue in the sales mart includes refunds.", status="archived"
    ).exists()
    assert Changeset.objects.get().state == "rolled_back"
