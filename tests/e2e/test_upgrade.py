"""Upgrades of filled databases of earlier versions: no row, group, permission or token is lost."""

from __future__ import annotations

import json

from tests.database_snapshot import DERIVED
from tests.e2e.processes import folder_and_port
from tests.e2e.upgrades import DATA, run

READ = """
import json
from pathlib import Path
from pydoc import locate
from django_q.models import Schedule
from tests.database_snapshot import table_contents
missing = [row.func for row in Schedule.objects.all() if not callable(locate(row.func))]
print(json.dumps([missing, table_contents(json.loads(Path({before!r}).read_text()))]))
"""


def test_an_older_installation_migrates_without_losing_a_row() -> None:
    before = json.loads((DATA / "november.json").read_text())
    with folder_and_port() as (home, _):
        run(home, "restore", str(DATA / "november.backup"))
        read = READ.format(before=str(DATA / "november.json"))
        missing_functions, after = json.loads(run(home, "shell", "--no-imports", "--command", read))
    assert missing_functions == []
    before.pop("django_q_schedule")  # derived: update_schedules recreates these rows
    for table, contents in ((name, before[name]) for name in before if name not in DERIVED):
        missing_rows = set(contents.pop("rows", [])) - set(after[table].pop("rows", []))
        assert (table, missing_rows, after[table]) == (table, set(), contents)
