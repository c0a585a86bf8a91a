"""Long work that is killed in the middle, and what remains of it."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable

from tests.faults.installation import PEOPLE, Installation
from tests.faults.table import fault
from tests.faults.workload import Workload

BEGINS_WITHIN_S = 120
IMPORTED = 3_000
ERASED = 60
CHANGES = 20


def kill_once(place: Installation, begun: Callable[[], bool], *arguments: str) -> None:
    """Run a command, and kill it as soon as `begun` says that it is in the middle of its work."""
    process = place.begin(*arguments)
    deadline = time.monotonic() + BEGINS_WITHIN_S
    while not begun():
        ended = process.poll()
        assert ended is None, f"it ended before it could be killed: {process.communicate()}"
        assert time.monotonic() < deadline, f"{arguments[0]} has not begun within {BEGINS_WITHIN_S} s"
        time.sleep(0.02)
    process.kill()
    process.communicate()


@fault("a backup is killed, and made again")
def backup_is_killed(place: Installation, work: Workload) -> None:
    target = place.home / "one.backup"
    kill_once(place, lambda: any(place.home.glob(".backup-*/*")), "backup", str(target))
    assert not target.exists(), "a killed backup left a file that looks complete"
    again = place.run("backup", str(target))
    assert again.returncode == 0, again.stderr
    assert not [*place.home.glob(".backup-*")], "the killed backup's folder, with a dump and the key, is still there"


@fault("an import is killed, and the worker goes on with it", silent_s=60)
def import_is_killed(place: Installation, work: Workload) -> None:
    file = place.home / "facts.csv"
    with file.open("w", newline="") as handle:
        rows = csv.writer(handle)
        rows.writerow(["content", "dimension"])
        rows.writerows(
            [f"Imported store {number} opens at {number % 12} on Mondays.", "knowledge"] for number in range(IMPORTED)
        )
    kill_once(place, lambda: _kept(place) > 50, "import", str(file), "--as", PEOPLE[0], "--yes")
    deadline = time.monotonic() + 400
    while _kept(place) < IMPORTED:
        assert time.monotonic() < deadline, f"{_kept(place)} of {IMPORTED} rows"
        place.python("from foundation.work.jobs import go_on; print(go_on())")
    (found,) = place.sql(
        "SELECT count(*), count(DISTINCT content) FROM memory_records WHERE content LIKE 'Imported store%%'"
    )
    assert found == (IMPORTED, IMPORTED), f"rows were lost or taken over twice: {found}"


def _kept(place: Installation) -> int:
    return int(place.sql("SELECT count(*) FROM memory_records WHERE content LIKE 'Imported store%%'")[0][0])


ERASE = """
from foundation.people.caller import system_caller
from memories.models import MemoryRecord
from memories.operations import Erase
from memories.writing import erasure
for pk in MemoryRecord.objects.filter(created_by="maya@fernhill.example").order_by("created_at").values_list("pk", flat=True)[:%d]:
    erasure.erase(system_caller(), Erase.read({"record_id": pk, "confirm": True}))
"""  # noqa: E501


@fault("an erasure is killed, and carried out again")
def erasure_is_killed(place: Installation, work: Workload) -> None:
    """Every memory is either still complete or gone from every table."""
    before = _erased(place)
    kill_once(place, lambda: _erased(place) > before + 5, "shell", "--no-imports", "--command", ERASE % ERASED)
    left = place.sql("""
        SELECT count(*) FROM memory_tombstones AS gone WHERE EXISTS (
            SELECT FROM memory_records WHERE id = gone.record_id AND status <> 'archived')""")
    assert left == [(0,)], "a memory is half erased"
    place.python(ERASE % ERASED)


def _erased(place: Installation) -> int:
    return int(place.sql("SELECT count(*) FROM memory_tombstones")[0][0])


@fault("`embed --all` is killed, and the worker goes on", silent_s=60)
def embedding_is_killed(place: Installation, work: Workload) -> None:
    model = place.sql("SELECT embedding_model FROM memory_records WHERE embedding_model <> '' LIMIT 1")[0][0]
    place.sql("UPDATE memory_records SET embedding_model = 'an earlier one' WHERE embedding_model <> ''")
    kill_once(place, lambda: _embedded(place, model) > 20, "embed", "--all")
    deadline = time.monotonic() + 150
    while (
        rest := place.sql(
            "SELECT count(*) FROM memory_records WHERE embedding_model = 'an earlier one' AND status <> 'archived'"
        )[0][0]
    ) > 0:
        assert time.monotonic() < deadline, f"{rest} memories have no current vector"
        time.sleep(1)


def _embedded(place: Installation, model: str) -> int:
    return int(
        place.sql("SELECT count(*) FROM memory_records WHERE embedding_model = %(model)s", {"model": model})[0][0]
    )


APPLY = """
from knowledge.changesets.apply import apply
from knowledge.insights.capture import capture
from knowledge.models import CatalogEntity
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from foundation.people.permissions import build_caller
from memory_project.models import User
people = [User.objects.get(email=f"{name}@fernhill.example") for name in ("jonas", "priya")]
jonas, priya = (build_caller(person, channel="test") for person in people)
urn = CatalogEntity.objects.filter(urn__startswith="urn:li:dataset:").order_by("urn").first().urn
text = "Orders of training tills are excluded."
insight = capture(jonas, Capture(insight_text=text, category="business_context", entity_urns=[urn])).insight
decisions.approve(priya, insight_id=insight.pk)
changes = [{"change_type": "add_tag", "detail": f"Fault{number}"} for number in range(%d)]
operation = {"insight_ids": [insight.pk.hex], "changes": changes, "entity_urn": urn, "confirm": True}
print(apply(priya, Apply.read(operation)).changeset.state)
"""
RESUME = """
from knowledge.changesets.apply import resume
from knowledge.models import Changeset
from foundation.people.permissions import build_caller
from memory_project.models import User
priya = build_caller(User.objects.get(email="priya@fernhill.example"), channel="test")
changeset = Changeset.objects.order_by("-created_at").first()
done = resume(priya, changeset_id=changeset.pk)
print(done.changeset.state, sum(row.outcome == "landed" for row in done.changes))
"""


@fault("a changeset is killed while it is written to the catalog, and resumed", silent_s=30)
def apply_is_killed(place: Installation, work: Workload) -> None:
    kill_once(place, lambda: 0 < _landed(place) < CHANGES, "shell", "--no-imports", "--command", APPLY % CHANGES)
    assert _landed(place) < CHANGES, "it was complete when it was killed"
    deadline = time.monotonic() + 90
    while (done := place.run("shell", "--no-imports", "--command", RESUME)).returncode:
        assert time.monotonic() < deadline, done.stderr  # until the lease of the killed process has ended
        time.sleep(2)
    assert done.stdout.split() == ["applied", str(CHANGES)], done.stdout


def _landed(place: Installation) -> int:
    statement = "SELECT count(*) FROM changes WHERE outcome = 'landed' AND path::text LIKE '%%Fault%%'"
    return int(place.sql(statement)[0][0])
