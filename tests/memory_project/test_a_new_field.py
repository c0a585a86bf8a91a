"""The second example of docs/extending.md, made to a copy of the program: a date that memories may have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection

from foundation.people.caller import Caller
from memory_project.models import User
from tests.mcp_client import environment

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("analysis", "foundation", "knowledge", "memories", "memory_project")
MIGRATE = """
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "memories", name="review_by", verbosity=0)
call_command("migrate", "memories", verbosity=0)
"""
COLUMN = "review_by = models.DateField(null=True, blank=True)"
FIELD = 'review_by: date | None = Field(None, description="Day on which to verify it.")'
# file → (a line of it, the lines that are added before it)
CHANGES = {
    "memories/models/record.py": [("    last_verified_at = models.DateTimeField(", [f"    {COLUMN}"])],
    "memories/operations.py": [
        ("from typing import", ["from datetime import date"]),
        ("class MemoryChanges(Operation):", [f"    {FIELD}", "", ""]),
        ("MEMORY_FIELDS = tuple(", [f"    {FIELD}", "", ""]),
    ],
    "memories/responses.py": [
        ("class Scores(TypedDict):", ["    review_by: NotRequired[str]", "", ""]),
    ],
}
# Runs in the copy. Prints what each door answers.
CALLS = """
import io, json
import django
django.setup()
from django.test import Client
from foundation.people.caller import system_caller
from foundation.people.permissions import build_caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.models import MemoryRevision
from memories.operations import Supersede
from memory_project.accounts.tokens import create_token
from memory_project.exchange.exports.markdown import write_markdown
from memory_project.exchange.exports.stream import export_rows, scope_of
from memory_project.exchange.imports.formats import comma_separated
from memory_project.models import User

user = User.objects.get(email="alice@example.org")
caller = build_caller(user, channel="rest")
token = create_token(system_caller(), user=user, name="t")[1]
client = Client(SERVER_NAME="localhost", headers={"authorization": f"Bearer {token}"})

def send(method, path, body):
    answer = getattr(client, method)(f"/api/v1/memories/{path}", json.dumps(body), content_type="application/json")
    return answer.status_code, answer.json()

def revise(day):
    etag = client.get(path).headers["ETag"]
    changes = json.dumps({"review_by": day})
    return client.patch(path, changes, content_type="application/json", headers={"If-Match": etag}).status_code

text = "Refunds are booked two days late."
status, made = send("post", "", {"content": text, "review_by": "2027-01-31"})
made = made["memory"]
path = f"/api/v1/memories/{made['id']}/"
revised = [revise("2027-02-28"), revise("2027-03-31")]
refused = send("post", "", {"content": "Orders are counted by day.", "review_by": "soon"})
stored = client.get(path).json()["memory"]["review_by"]
corrected = services.supersede(
    caller, Supersede.read({"record_id": made["id"], "content": "Refunds are booked three days late."})
).record
proposal = Capture.read({"category": "correction", "insight_text": "Orders have no taxes.", "review_by": "2027-05-01"})
captured = capture(caller, proposal).insight
rows = list(export_rows(scope_of(caller, scope="person")))
exported = [row["review_by"] for row in rows if row["kind"] == "memory" and row["id"] == corrected.pk.hex]
(imported,) = comma_separated.read(io.BytesIO(b"content,review_by\\nTills are counted at night.,2027-06-01"), "a.csv")
print(json.dumps({
    "created": [status, made["review_by"]],
    "stored": stored,
    "revised": revised,
    "history": [row.details.get("review_by") for row in MemoryRevision.objects.filter(record=made["id"])],
    "refused": refused,
    "corrected": str(corrected.review_by),
    "captured": str(captured.record.review_by),
    "exported": exported,
    "imported": imported.data["review_by"],
}))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """Yield a copy of the program with the field, whose column the test's database has until the test ends."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("manage.py", "locale", "static", "templates"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name, additions in CHANGES.items():
        file = tmp_path / name
        lines = file.read_text().splitlines()
        for before, added in additions:
            place = next(number for number, line in enumerate(lines) if line.startswith(before))
            while not lines[place - 1] and not added[-1]:  # a class ends before the blank lines
                place -= 1
            lines[place:place] = added if added[-1] else added[:1]
        file.write_text("\n".join(lines) + "\n")
    try:
        run(tmp_path, "-c", MIGRATE)
        yield tmp_path
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE memory_records DROP COLUMN IF EXISTS review_by")
            cursor.execute("DELETE FROM django_migrations WHERE name LIKE '%review_by'")


def run(folder: Path, *arguments: str) -> str:
    variables = {**environment(), "PYTHONPATH": str(folder), "COMMONPLACE_HOME": os.environ.get("COMMONPLACE_HOME", "")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_field_of_a_memory_takes_four_files(copy: Path, alice: Caller, alice_user: User) -> None:
    answers = json.loads(run(copy, "-c", CALLS).splitlines()[-1])
    assert answers["created"] == [201, "2027-01-31"]
    assert answers["revised"] == [200, 200]
    assert answers["stored"] == "2027-03-31"
    assert answers["history"][-2:] == ["2027-02-28", "2027-01-31"]
    status, refused = answers["refused"]
    assert (status, refused["field"]) == (400, "review_by")
    assert "a date in ISO 8601" in refused["detail"]
    assert (answers["corrected"], answers["captured"]) == ("2027-03-31", "2027-05-01")
    assert answers["exported"] == ["2027-03-31"]
    assert answers["imported"] == "2027-06-01"


def test_the_documentation_shows_these_changes() -> None:
    text = (ROOT / "docs/extending.md").read_text()
    assert COLUMN in text
    assert FIELD.split(", description")[0].replace("|", r"\|") in text
    assert all(f"`{name}`" in text for name in CHANGES)
