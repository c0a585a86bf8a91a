"""Data sets with many pages or many fields: what is computed at once, later, and how values are counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from analysis import findings, records, sessions
from analysis.ingest import ingest
from analysis.models import Finding, IngestedRecord
from analysis.operations import IngestRecords
from analysis.querying import description
from analysis.querying.query import scope
from foundation.people.caller import Caller
from memories.models import IndexJob
from memories.retrieval import indexing
from tests.analysis.conftest import Hold
from tests.fake_rest_api import Api

pytestmark = pytest.mark.django_db


def ingest_all(caller: Caller, **overrides: Any) -> None:
    arguments = {"analysis_id": "audit", "model": "book", "ingest_all": True, "per_page": 5}
    ingest(caller, IngestRecords.read({**arguments, **overrides}))


def without_vectors() -> int:
    return Finding.objects.filter(passages=None).count()


def test_summaries_of_many_pages_are_embedded_by_a_worker(alice: Caller, api: Api) -> None:
    ingest_all(alice)
    assert (Finding.objects.count(), without_vectors(), IndexJob.objects.count()) == (24, 14, 14)
    session = sessions.get_session(alice, "audit")
    by_words = findings.search(alice, session, "records about reading", threshold=2)
    assert len(by_words.hits) == 24  # found by words at once
    assert [hit.similarity > 0 for hit in by_words.hits] == [True] * 10 + [False] * 14
    assert indexing.run_batch("worker") == (14, 0)
    assert without_vectors() == 0
    assert all(hit.similarity > 0 for hit in findings.search(alice, session, "records about reading", threshold=2).hits)


def test_only_as_many_long_summaries_are_embedded_at_once_as_fit_the_limit(alice: Caller, api: Api) -> None:
    api.books = {str(n): {"id": n, **{f"field {k} of the book": n * k for k in range(60)}} for n in range(20)}
    ingest_all(alice)
    lengths = [len(finding.finding) for finding in Finding.objects.exclude(passages=None).distinct()]
    assert 1 <= len(lengths) < 4
    assert sum(lengths) <= findings.EMBEDDED_CHARACTERS
    assert IndexJob.objects.count() == 4 - len(lengths)


def test_a_file_is_read_once_for_all_pages(
    alice: Caller, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": n}) + "\n" for n in range(100)))
    (tmp_path / "sources.toml").write_text(
        'kind = "file"\nread_personas = ["sales"]\n[models.deal]\npath = "a.jsonl"\n'
    )
    settings.ANALYSIS_FILES, settings.ANALYSIS_SOURCES = str(tmp_path), str(tmp_path / "sources.toml")
    lines: list[str] = []
    parse = json.loads

    def counted(line: str) -> Any:
        lines.append(line)
        return parse(line)

    monkeypatch.setattr("analysis.sources.files.json.loads", counted)
    ingest_all(alice, model="deal")
    assert IngestedRecord.objects.count() == 100
    assert len([line for line in lines if line.startswith('{"id"')]) == 100


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=[]), max_size=5)
    | st.sampled_from(["\x00", "\\u0000", "\ud800", "u0000"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_a_row_that_needs_no_change_is_recognized(row: dict[str, Any]) -> None:
    stored, text = records._as_json(row)
    assert stored == records.clean(row)
    assert json.loads(text) == stored
    text.encode()


MIXED: list[dict[str, Any]] = [
    {"id": n, "v": value}
    for n, value in enumerate(
        ["a", "a", "b", None, 1, 1.5, True, "true", "1", 2**60, [1, "x"], {"k": None}, "x" * 100, "x" * 101, "", "1"]
    )
]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.mark.parametrize("chunk", [1, 3, 500])
def test_describe_counts_types_and_texts_like_plain_python(
    hold: Hold, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(description, "CHUNK", chunk)
    result = description.describe(scope(hold([*MIXED, {"id": 99}]), "", None))
    by_name = {field.name: field for field in result.fields}
    values = [row["v"] for row in MIXED]
    texts = Counter(as_text(value) for value in values if value is not None)
    assert by_name["v"].types == {"string": 9, "number": 3, "null": 1, "boolean": 1, "array": 1, "object": 1}
    assert (by_name["v"].missing, by_name["v"].distinct) == (1, len(texts))
    expected = sorted(texts, key=lambda text: (-texts[text], text))[:5]
    assert by_name["v"].examples == [text[:60] for text in expected]
    assert (by_name["id"].types, by_name["id"].distinct, by_name["id"].missing) == ({"number": 17}, 17, 0)


@hypothesis_settings(max_examples=40)
@given(st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f", "g", 1, 2, True, None]), min_size=1, max_size=30))
def test_examples_are_the_most_frequent_values_in_order(hold: Hold, values: list[Any]) -> None:
    IngestedRecord.objects.all().delete()
    result = description.describe(scope(hold([{"id": n, "v": value} for n, value in enumerate(values)]), "", None))
    texts = Counter(as_text(value) for value in values if value is not None)
    (field,) = [field for field in result.fields if field.name == "v"]
    assert field.examples == sorted(texts, key=lambda text: (-texts[text], text))[:5]
    assert field.distinct == len(texts)
