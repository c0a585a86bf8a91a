"""Traps of bench/delivery.json: the file itself, a sample of them, and the part with a language model."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from foundation.people.caller import Caller
from memory_project.operating import demo
from memory_project.operating.demo import warehouse

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import delivery as bench
import delivery_answers
import delivery_others

from tests.http_servers import QuietHandler, serving

SAMPLE = 12
FLOOR = 10


@pytest.fixture(scope="module")
def traps() -> list[bench.Trap]:
    return bench.load()


def test_cases_are_balanced_and_about_tables_of_the_demo(traps: list[bench.Trap]) -> None:
    kinds = Counter(trap.kind for trap in traps)
    assert len(traps) == 120
    assert kinds.keys() == set(bench.KINDS)
    assert 20 <= kinds["control"] <= 24
    assert min(kinds.values()) >= 10
    assert Counter(trap.half for trap in traps) == {"seen": 60, "unseen": 60}
    assert len({trap.sql for trap in traps}) == len({trap.question for trap in traps}) == 120
    known = {name.partition(".")[2] for name in warehouse.tables(demo.FOLDER / "catalog.json")} | {"pos.legacy_sales"}
    assert {table for trap in traps for table in trap.about} <= known


def test_bare_texts_name_no_tables_and_columns(traps: list[bench.Trap]) -> None:
    texts = [text for trap in traps for text in (trap.bare, trap.bare_other, trap.bare_old)]
    assert [text for text in texts if re.search(r"\w_\w|[a-z]\.[a-z]", text)] == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"kind": "riddle"}, "`kind` is 'riddle'; allowed: definition"),
        ({"kind": "control", "question": "?"}, "`sql` is missing"),
        ({"kind": "unit", "question": "?", "sql": "SELECT 1", "memory": "In cents.", "bare": "In cents."}, "`about`"),
        ({"kind": "control", "question": "?", "sql": "SELECT 1", "hint": ""}, "unknown field 'hint'; allowed: about"),
    ],
)
def test_a_malformed_case_is_an_error_that_names_the_field(tmp_path: Path, row: dict[str, str], problem: str) -> None:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([row]))
    with pytest.raises(ValueError, match=re.escape(problem)):
        bench.load(file)


def test_other_memories_are_about_tables_of_their_own() -> None:
    tables = delivery_others.other_tables()
    facts = delivery_others.facts(tables, 300)
    assert facts == delivery_others.facts(tables, 300)
    assert len({fact["content"] for fact in facts}) == 300
    known = {name.partition(".")[2] for name in warehouse.tables(demo.FOLDER / "catalog.json")}
    assert not known & tables.keys()


@pytest.mark.django_db
def test_most_of_a_sample_of_traps_are_delivered(alice: Caller, bob: Caller, traps: list[bench.Trap]) -> None:
    needing = [trap for trap in traps if not trap.is_control]
    sample = needing[:: len(needing) // SAMPLE][:SAMPLE]
    controls = [trap for trap in traps if trap.is_control][:3]
    bench.fill_catalog(sample)
    variant = bench.VARIANTS["names"]
    bench.store(alice, sample, variant)
    outcomes = [bench.outcome_of(bob, trap, variant) for trap in (*sample, *controls)]
    missed = [outcome.trap.memory for outcome in outcomes[:SAMPLE] if not outcome.is_delivered]
    assert len(missed) <= SAMPLE - FLOOR, missed
    assert [outcome.reasons for outcome in outcomes[SAMPLE:]] == [{}, {}, {}]


@pytest.mark.django_db
def test_an_outsider_gets_nothing(alice: Caller, olga: Caller, traps: list[bench.Trap]) -> None:
    variant = bench.VARIANTS["names, stated"]
    bench.fill_catalog(traps[:1])
    bench.store(alice, traps[:1], variant)
    outcome = bench.outcome_of(olga, traps[0], variant)
    assert (outcome.is_delivered, outcome.reasons) == (False, {})


# -- a language model -----------------------------------------------------------------------------------------


class Model(QuietHandler):
    """Answers rightly if it was given the memory, and repeats the first attempt otherwise."""

    trap: bench.Trap

    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][-1]["content"]
        sql = self.trap.right_sql if self.trap.memory in prompt else self.trap.sql
        body = json.dumps({"choices": [{"message": {"content": f"Sure:\n```sql\n{sql}\n```"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def model(settings: Any, traps: list[bench.Trap]) -> Iterator[type[Model]]:
    Model.trap = next(trap for trap in traps if trap.right_sql)
    with serving(Model) as url:
        settings.ENRICHMENT_URL, settings.ENRICHMENT_MODEL = f"{url}/v1", "stand-in"
        yield Model


@pytest.mark.django_db
def test_right_answers_are_counted_with_and_without_memories(
    alice: Caller, ada: Caller, model: type[Model], traps: list[bench.Trap], capsys: pytest.CaptureFixture[str]
) -> None:
    bench.fill_catalog([model.trap])
    with delivery_answers.warehouse() as file:
        delivery_answers.check(traps, file)
        bench.store(alice, [model.trap], bench.VARIANTS["names"])
        delivery_answers.compare(ada, [model.trap])
    assert f"| {model.trap.kind} | 1 | 0 | 1 |\n| all | 1 | 0 | 1 |" in capsys.readouterr().out


def test_a_trap_whose_statements_agree_is_refused(tmp_path: Path) -> None:
    same = bench.Trap("unit", "How many?", "SELECT 1 + 1", right_sql="SELECT 2")
    with pytest.raises(ValueError, match="the same result"):
        delivery_answers.check([same], _empty_warehouse(tmp_path))


def test_without_a_language_model_answers_are_not_measured(capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.ENRICHMENT_URL = ""
    delivery_answers.compare(None, [])
    assert "not measured" in capsys.readouterr().out


def _empty_warehouse(folder: Path) -> Path:
    duckdb.connect(str(folder / "empty.duckdb")).close()
    return folder / "empty.duckdb"
