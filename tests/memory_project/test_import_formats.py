"""Reading of the formats that can be imported."""

from __future__ import annotations

import codecs
import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Invalid
from memories.operations import Remember
from memory_project.exchange.imports.formats import FORMATS, comma_separated, json_items, markdown
from memory_project.exchange.imports.formats.chat_exports import ChatMessage, turn_rows
from memory_project.exchange.imports.formats.memory_rows import timestamp
from memory_project.exchange.imports.rows import ImportedRow
from tests.docs_tables import table
from tests.memory_project.import_samples import (
    CHATGPT_CONVERSATION,
    CLAUDE_CONVERSATION,
    CLAUDE_MEMORY,
    CSV,
    ENTITY,
    MCP_MEMORY,
    MEM0_MEMORY,
    RELATION,
    SAMPLES,
    chatgpt_node,
    contents,
    lines,
    rows,
    zipped,
)

FILES = [(name, file, content) for name, files in SAMPLES.items() for file, content in files]


def as_json(*values: Any, **keys: Any) -> bytes:
    return json.dumps(keys or list(values)).encode()


def test_every_format_has_a_sample() -> None:
    assert set(SAMPLES) == set(FORMATS) - {"commonplace"}


def test_the_documented_formats_are_those_of_the_code() -> None:
    assert set(FORMATS) - {"commonplace"} <= set(table("docs/import.md", "| format |"))


@pytest.mark.parametrize(("name", "file", "content"), FILES, ids=lambda value: value if isinstance(value, str) else "")
def test_exactly_one_format_recognizes_a_file(name: str, file: str, content: bytes) -> None:
    assert [other for other, form in FORMATS.items() if form.recognizes(content[: 1 << 16], file)] == [name]


@pytest.mark.parametrize(("name", "file", "content"), FILES, ids=lambda value: value if isinstance(value, str) else "")
def test_the_memories_of_a_sample_can_be_remembered(name: str, file: str, content: bytes) -> None:
    found = rows(name, content, file)
    memories = [row.data for row in found if row.kind == "memory" and not row.problem]
    assert [row for row in found if not row.problem]
    for data in memories:
        # A name of an entity is looked up in the catalog, which is no concern of a reader.
        Remember.read({key: value for key, value in data.items() if key not in ("created_at", "entity_urns")})
        assert json.loads(json.dumps(data)) == data


def test_csv_rows() -> None:
    (row,) = rows("csv", CSV.encode())
    text = "Freight is counted, by pallet.\nNot by box."
    assert row == ImportedRow(
        "lines 2 to 3", {"content": text, "tags": ["freight", "rules"], "entity_urns": ["fernhill.orders"]}
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("content\n", []),
        ("content,,\nfirst fact,,\n", ["first fact"]),  # a spreadsheet program appended empty columns
        ("content\n\n  \nfirst fact\n", ["first fact"]),
        ("content\rfirst fact\rsecond fact\r", ["first fact", "second fact"]),
        ("CONTENT;Tags\nfirst fact;a,b\n", ["first fact"]),
        ("content\n'=SUM(A1) is a formula\n", ["=SUM(A1) is a formula"]),
        ("content\n'quoted' is a word\n", ["'quoted' is a word"]),
        ("content,tags\nfirst fact\n", ["first fact"]),
    ],
)
def test_csv_variants(content: str, expected: list[str]) -> None:
    found = rows("csv", content.encode())
    assert contents(found) == expected
    assert not [row for row in found if row.problem]


def test_csv_keys_and_times() -> None:
    (row,) = rows("csv", b"id,content,created_at,confidence\n7,a fact,2026-03-01T10:00:00+02:00,HIGH\n")
    assert (row.key, row.data["created_at"], row.data["confidence"]) == ("7", "2026-03-01T08:00:00+00:00", "high")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no column"),
        (b"fact\nx\n", "no column"),
        (b"content,owner\nx,y\n", "unknown column 'owner'"),
        (b"content,content\nx,y\n", "twice"),
        ("content,tags\nä,b\n".encode("utf-16"), "UTF-8"),
        ("content,täg\n".encode("latin-1"), "UTF-8"),
        (b"content\0,tags\n", "UTF-8"),
        (b'"content" x', "no column"),
        (b"content" + b"," * (2 << 20), "more than"),
    ],
)
def test_csv_files_of_no_use(content: bytes, problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        rows("csv", content)


@pytest.mark.parametrize(
    ("faulty", "problem"),
    [
        (b"a fact,tag,third\n", "more values"),
        ("ein schöner Satz,tag\n".encode("latin-1"), "UTF-8"),
        (b"a fact with \0 in it,tag\n", "NUL"),
        (b",only a tag\n", "content: is missing"),
        (b'"closed"too late,tag\n', "CSV"),
        (b"a" * 200_000 + b",tag\n", "more than"),
        (b"a" * (3 << 20) + b",tag\n", "more than"),
    ],
)
def test_a_faulty_csv_row_does_not_affect_others(faulty: bytes, problem: str) -> None:
    first, bad, last = rows("csv", b"content,tags\nfirst fact,a\n" + faulty + b"last fact,b\n")
    assert problem in bad.problem
    assert (bad.place, bad.data) == ("line 3", {})
    assert contents([first, last]) == ["first fact", "last fact"]


@pytest.mark.parametrize("end", [b"last fa", b'"last fact,', b'"last fact, with "'])
def test_a_csv_file_that_was_cut(end: bytes) -> None:
    first, last = rows("csv", b"content,tags\nfirst fact,a\n" + end)
    assert contents([first]) == ["first fact"]
    assert last.problem


def test_an_open_quote_costs_a_part_of_a_csv_file_only() -> None:
    body = b"".join(b"fact number %d,tag\n" % number for number in range(20_000))
    found = rows("csv", b'content,tags\n"open quote,tag\n' + body)
    assert found[0].place.startswith("lines 2 to ")
    assert "more than" in found[0].problem
    assert contents(found)[-1] == "fact number 19999"
    assert len(contents(found)) > 10_000


OWN = {
    "id": "4f1c5b9e000040008000000000000001",
    "created_at": "2026-03-01T10:00:00+00:00",
    "created_by": "ana@fernhill.example",
    "visibility": "private",
    "dimension": "knowledge",
    "category": "data_quality",
    "tags": ["freight"],
    "entity_urns": ["urn:li:dataset:(urn:li:dataPlatform:x,a.b,PROD)"],
    "metadata": {"since": 2020, "superseded_by": "x", "checked": True},
    "status": "active",
}


def own_note(**changes: Any) -> bytes:
    values = OWN | changes
    front = "".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items())
    link = f"Corrects {values['supersedes']}\n" if "supersedes" in values else ""
    return f"---\n{front}---\n\n- counted by pallet\n\n{link}".encode()


def own_table(**changes: Any) -> bytes:
    values = OWN | {"content": "'- counted by pallet"} | changes
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(values)
    writer.writerow([json.dumps(value) if isinstance(value, dict | list) else value for value in values.values()])
    return text.getvalue().encode()


@pytest.mark.parametrize("content", [own_note(), own_note(supersedes="[[Freight 4f1c]]"), own_table()])
def test_this_programs_own_exports_as_csv_and_markdown(content: bytes) -> None:
    file = "Freight.md" if content.startswith(b"---") else "memories.csv"
    (row,) = rows("markdown" if file.endswith("md") else "csv", content, file)
    assert row.key == OWN["id"]
    assert row.data == {
        "content": "- counted by pallet",
        "dimension": "knowledge",
        "category": "data_quality",
        "visibility": "private",
        "tags": ["freight"],
        "entity_urns": ["urn:li:dataset:(urn:li:dataPlatform:x,a.b,PROD)"],
        "created_at": "2026-03-01T10:00:00+00:00",
        "metadata": {"since": 2020, "checked": True},
    }


@pytest.mark.parametrize("change", [{"status": "superseded"}, {"status": "archived"}, {"tier": "stm"}])
def test_only_active_facts_come_back_from_csv_and_markdown(change: dict[str, str]) -> None:
    (note,), (row,) = rows("markdown", own_note(**change), "a.md"), rows("csv", own_table(**change))
    assert next(iter(change)) in note.problem
    assert next(iter(change)) in row.problem


def test_an_exported_note_whose_front_matter_another_program_wrote_anew() -> None:
    note = own_note().replace(b'"2026-03-01T10:00:00+00:00"', b"2026-03-01T10:00:00+00:00")
    (row,) = rows("markdown", note, "a.md")
    assert row.data["created_at"] == "2026-03-01T10:00:00+00:00"


@pytest.mark.parametrize("value", ["!!set {a, b}", "!!binary aGk=", "!!python/object:os.system x", "{1: 2}", ".inf"])
def test_values_in_front_matter_that_are_not_json(value: str) -> None:
    (row,) = rows("markdown", own_note().replace(b'{"since"', f"{value} # ".encode()), "a.md")
    assert row.problem


def test_faulty_json_in_an_exported_table() -> None:
    (row,) = rows("csv", own_table(metadata="{"))
    assert row.problem == "metadata: can't be read as JSON"


@pytest.mark.parametrize("word", ["nan", "NaN", "None", "null", "<NA>", "NaT"])
def test_words_for_no_value_are_none(word: str) -> None:
    content = f"content,summary,tags,created_at,dimension,id\nA fact about lanes.,{word},{word},{word},{word},{word}\n"
    (row,) = rows("csv", content.encode())
    assert (row.problem, row.key, row.data) == ("", "", {"content": "A fact about lanes."})
    (empty,) = rows("csv", f"content,tags\n{word},lanes\n".encode())
    assert "content: is missing" in empty.problem


@pytest.mark.parametrize("cell", ['["freight", "two words"]', "['freight', 'two words']", "[freight, two words]"])
def test_tags_that_were_saved_as_a_list(cell: str) -> None:
    (row,) = rows("csv", f"""content,tags\nA fact about lanes.,"{cell.replace('"', '""')}"\n""".encode())
    assert row.data["tags"] == ["freight", "two words"]
    (other,) = rows("mcp-memory-service", as_json(memories=[MCP_MEMORY | {"tags": cell}]))
    assert other.data["tags"] == ["freight", "two words"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1774751400", "2026-03-29T02:30:00+00:00"),
        ("1774751400.5", "2026-03-29T02:30:00.500000+00:00"),
        ("1774751400000", "2026-03-29T02:30:00+00:00"),
        ("2026-060", "2026-03-01T00:00:00+00:00"),
        ("2026-W10-1", "2026-03-02T00:00:00+00:00"),
        ("20260301", "2026-03-01T00:00:00+00:00"),
    ],
)
def test_times_that_tables_have(text: str, expected: str) -> None:
    (row,) = rows("csv", f"content,created_at\nA fact about lanes.,{text}\n".encode(), "facts.csv")
    assert (row.problem, row.data["created_at"]) == ("", expected)


def test_a_time_in_the_future_is_refused_and_not_replaced() -> None:
    (row,) = rows("csv", b"content,created_at\nA fact about lanes.,3000-01-01\n", "facts.csv")
    assert "3000-01-01 is in the future" in row.problem


@pytest.mark.parametrize("format", ["claude", "chatgpt"])
def test_a_message_without_a_time_is_not_the_newest(format: str) -> None:
    times = ["2024-05-01T10:00:00+00:00", None, "2024-05-01T09:00:00+00:00", None]
    if format == "claude":
        messages = [
            {"uuid": str(number), "sender": "human", "text": f"Message {number}", "created_at": stamp}
            for number, stamp in enumerate(times)
        ]
        export: Any = [{"uuid": "c", "name": "T", "created_at": "2024-05-01T08:00:00Z", "chat_messages": messages}]
    else:

        def parts(number: int) -> dict[str, Any]:
            return {"content_type": "text", "parts": [f"Message {number}"]}

        seconds = [stamp and datetime.fromisoformat(stamp).timestamp() for stamp in times]
        mapping: dict[str, Any] = {
            str(number): {
                "id": str(number), "parent": str(number - 1) if number else None, "children": [],
                "message": {"author": {"role": "user"}, "create_time": stamp, "content": parts(number)},
            }
            for number, stamp in enumerate(seconds)
        }  # fmt: skip
        export = [{"conversation_id": "c", "title": "T", "create_time": 1, "current_node": "3", "mapping": mapping}]
    read = rows(format, json.dumps(export).encode(), "conversations.json")
    assert [row.data["created_at"] for row in read] == [times[0], times[0], times[2], times[0]]


def test_mcp_memory() -> None:
    first, second, relation = rows("mcp-memory", lines(ENTITY, RELATION))
    assert first.data["content"] == "Ana: prefers pallets"
    assert second.data["content"] == "Ana is 1 m tall"
    assert first.data["tags"] == ["person"]
    assert (relation.data["content"], relation.data["dimension"]) == ("Ana works at Fernhill", "relationship")
    assert rows("mcp-memory", as_json(entities=[ENTITY], relations=[RELATION]))[0].data == first.data


def test_mem0() -> None:
    (row,) = rows("mem0", as_json(results=[MEM0_MEMORY]))
    assert row.key == MEM0_MEMORY["id"]
    assert row.data["content"] == "Ana reports on freight"
    assert row.data["created_at"] == "2026-03-01T10:00:00+00:00"
    assert (row.data["tags"], row.data["metadata"]) == (["work"], {"mem0": {"user_id": "ana"}})
    (expired,) = rows("mem0", as_json(results=[MEM0_MEMORY | {"expiration_date": "2025-01-01"}]))
    assert "expired" in expired.problem
    day = str(timezone.now().date() + timedelta(days=400))
    (lasting,) = rows("mem0", as_json(results=[MEM0_MEMORY | {"expiration_date": day}]))
    assert lasting.data["valid_until"] == day
    (endless,) = rows("mem0", as_json(results=[MEM0_MEMORY | {"expiration_date": "2999-01-01"}]))
    assert "valid_until" not in endless.data


@pytest.mark.parametrize(
    ("name", "sample", "keys"), [("mem0", MEM0_MEMORY, ("memory",)), ("mcp-memory-service", MCP_MEMORY, ("content",))]
)
def test_memories_as_a_list_as_lines_and_one_alone(name: str, sample: dict[str, Any], keys: tuple[str, ...]) -> None:
    second = sample | dict.fromkeys(keys, "Stock is counted at four in the morning.")
    lines = b"\n".join(json.dumps(each).encode() for each in (sample, second))
    broken = lines.replace(b"\n", b'\n{"cut\n')
    for content in (lines, lines + b"\n", json.dumps([sample, second]).encode()):
        assert [other for other, form in FORMATS.items() if form.recognizes(content, "x.jsonl")] == [name]
        assert [row.data["content"] for row in rows(name, content)][1] == second[keys[0]]
    first, problem, third = rows(name, broken)
    assert (first.problem, "line 2" in problem.place, third.problem) == ("", True, "")
    long = json.dumps(sample | {"metadata": {"note": "x" * 100_000}}).encode() + b"\n" + json.dumps(second).encode()
    for content in (b'{"cut\n' + lines, long):
        assert [other for other, form in FORMATS.items() if form.recognizes(content[: 1 << 16], "x.jsonl")] == [name]
        assert rows(name, content)[-1].data["content"] == second[keys[0]]
    (alone,) = rows(name, json.dumps(sample, indent=1).encode())
    assert alone.data["content"] == sample[keys[0]]


def test_mcp_memory_service() -> None:
    replaced = MCP_MEMORY | {"metadata": {"superseded_by": "cd34"}}
    row, other = rows("mcp-memory-service", as_json(memories=[MCP_MEMORY, replaced]))
    assert (row.data["tags"], row.data["created_at"]) == (["freight", "rules"], "2023-08-21T16:00:00+00:00")
    assert "superseded" in other.problem
    (iso,) = rows(
        "mcp-memory-service",
        as_json(memories=[MCP_MEMORY | {"created_at": None, "created_at_iso": "2023-08-21T16:00:00Z"}]),
    )
    assert iso.data["created_at"] == "2023-08-21T16:00:00+00:00"


def test_chatgpt() -> None:
    memory, question, answer = rows("chatgpt", as_json(CHATGPT_CONVERSATION), "conversations.json")
    assert (memory.kind, memory.data["content"]) == ("memory", "The team counts pallets only.")
    assert [row.kind for row in (question, answer)] == ["turn", "turn"]
    conversation = "chatgpt:6995e870-eafc-83a6-ab22-d89ad9e2b447"
    assert answer.data == {
        "conversation_id": conversation,
        "title": "Freight report",
        "position": 1,
        "role": "ai",
        "content": "Orders with at least one pallet.",
        "created_at": "2025-12-14T00:19:33.680000+00:00",
    }


def test_claude() -> None:
    archive = SAMPLES["claude"][-1][1]
    found = rows("claude", archive, "data.zip")
    assert [(row.kind, row.data["content"]) for row in found] == [
        ("memory", "**Work**\n\nThe user reports on freight."),
        ("memory", "Freight is counted by pallet."),
        ("memory", "# rules.md\n\nFreight is by pallet."),
        ("turn", "Which orders count?"),
        ("turn", "Those with a pallet."),
    ]


def test_memories_of_agents_are_private() -> None:
    for name in ("mcp-memory", "mem0", "mcp-memory-service", "chatgpt", "claude"):
        for file, content in SAMPLES[name]:
            found = [row for row in rows(name, content, file) if row.kind == "memory" and not row.problem]
            assert {row.data["visibility"] for row in found} <= {"private"}


CIRCLE = {"a": chatgpt_node("a", "b", ["b"], text="First."), "b": chatgpt_node("b", "a", ["a"], text="Second.")}
HOSTILE: list[tuple[str, bytes, str]] = [
    ("mcp-memory", lines(ENTITY | {"observations": "text"}, RELATION), "not a list"),
    ("mcp-memory", lines(ENTITY | {"observations": [5]}, RELATION), "is not a text"),
    ("mcp-memory", lines(ENTITY | {"observations": []}, RELATION), "no observations"),
    ("mcp-memory", lines(ENTITY | {"name": None}, RELATION), "not a text"),
    ("mcp-memory", lines({"type": "entity"}, RELATION), "neither an entity"),
    ("mcp-memory", lines(RELATION | {"to": {}}, RELATION), "not a text"),
    ("mcp-memory", b'{"type": "entity", "name": "x"\n' + lines(RELATION), "JSON"),
    ("mcp-memory", b"[1]\n" + lines(RELATION), "not an object"),
    ("mcp-memory", b'{"a": 1, "a": 2}\n' + lines(RELATION), "twice"),
    ("mcp-memory", b'{"a": NaN}\n' + lines(RELATION), "NaN"),
    ("mcp-memory", b'{"a": "\xff"}\n' + lines(RELATION), "UTF-8"),
    ("mcp-memory", b"[" * 100_000 + b"\n" + lines(RELATION), "nested"),
    ("mcp-memory", b'{"a": ' + b"9" * 5_000 + b"}\n" + lines(RELATION), "limit"),
    ("mem0", as_json(results=[{"id": 1}, MEM0_MEMORY]), "memory: is missing"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"score": float("nan")}, MEM0_MEMORY]), "NaN"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"score": [float("-inf")]}, MEM0_MEMORY]), "Infinity"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"memory": ["x"]}, MEM0_MEMORY]), "memory: is missing"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"memory": "a \0 b"}, MEM0_MEMORY]), "NUL"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"created_at": "soon"}, MEM0_MEMORY]), "created_at: 'soon'"),
    ("mem0", as_json(results=[MEM0_MEMORY | {"created_at": 1e300}, MEM0_MEMORY]), "created_at"),
    ("mem0", as_json(results=["text", MEM0_MEMORY]), "not an object"),
    ("mem0", as_json(results=[{"x": 1}, MEM0_MEMORY]).replace(b'"x"', b'"x": 2, "x"'), "twice"),
    ("mcp-memory-service", as_json(memories=[{"content": 5}, MCP_MEMORY]), "content: is missing"),
    ("chatgpt", as_json(CHATGPT_CONVERSATION | {"mapping": []}, CHATGPT_CONVERSATION), "not a conversation"),
    ("chatgpt", as_json(CHATGPT_CONVERSATION | {"conversation_id": "a\nb"}, CHATGPT_CONVERSATION), "not a conver"),
    ("chatgpt", as_json(CHATGPT_CONVERSATION | {"mapping": {"a": 5}}, CHATGPT_CONVERSATION), "no messages"),
    ("claude", as_json(CLAUDE_CONVERSATION | {"chat_messages": {}}, CLAUDE_CONVERSATION), "not a conversation"),
    ("claude", as_json(CLAUDE_CONVERSATION | {"chat_messages": [5]}, CLAUDE_CONVERSATION), "no messages"),
    ("claude", as_json({"uuid": "x"}, CLAUDE_CONVERSATION), "neither"),
    ("claude", as_json({"docs": [5], "name": []}, CLAUDE_CONVERSATION), "no text"),
    ("claude", as_json(CLAUDE_MEMORY | {"conversations_memory": [1]}, CLAUDE_CONVERSATION), "not a text"),
]


@pytest.mark.parametrize(("name", "content", "problem"), HOSTILE)
def test_a_faulty_item_does_not_affect_others(name: str, content: bytes, problem: str) -> None:
    found = rows(name, content)
    assert problem in " ".join(row.problem for row in found)
    assert not found[-1].problem


@pytest.mark.parametrize("name", ["mcp-memory-service", "mem0", "chatgpt", "claude"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[{", b"not JSON", b"\xff\xfe[\0", b"[" * 5_000])
def test_json_of_no_use(name: str, content: bytes) -> None:
    with pytest.raises(Invalid, match="file: "):
        rows(name, content, "a.json")


@pytest.mark.parametrize("name", ["mem0", "chatgpt", "claude"])
def test_a_cut_json_file_keeps_what_could_be_read(name: str) -> None:
    sample = {"mem0": MEM0_MEMORY, "chatgpt": CHATGPT_CONVERSATION, "claude": CLAUDE_CONVERSATION}[name]
    found = rows(name, as_json(sample, sample)[:-50], "conversations.json")
    assert found[-1].problem.endswith("it ends too early; nothing after this is read")
    assert contents(found[:-1]) == contents(rows(name, as_json(sample), "conversations.json"))


def test_messages_in_a_circle() -> None:
    circle = CHATGPT_CONVERSATION | {"mapping": CIRCLE, "current_node": "b"}
    assert contents(rows("chatgpt", as_json(circle))) == ["First.", "Second."]


def test_a_long_message_becomes_several_turns() -> None:
    node = {"a": chatgpt_node("a", None, [], text="word " * 9_000)}
    found = rows("chatgpt", as_json(CHATGPT_CONVERSATION | {"mapping": node, "current_node": "gone"}))
    assert [row.data["position"] for row in found] == list(range(len(found)))
    assert len(found) > 1


def test_an_item_that_would_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_items, "MAX_ITEM_VALUES", 100)
    monkeypatch.setattr(json_items, "MAX_TEXT", 200_000)
    large: dict[str, Any] = MEM0_MEMORY | {"metadata": [[]] * 200}
    first, second = rows("mem0", as_json(large, MEM0_MEMORY))
    assert (first.problem, second.problem) == ("is too large", "")
    cut, rest = rows("mem0", as_json(MEM0_MEMORY, MEM0_MEMORY | {"memory": "x" * 1_000_000}, MEM0_MEMORY))
    assert not cut.problem
    assert "too long" in rest.problem


def test_only_one_item_of_a_large_file_is_read_ahead() -> None:
    """Readers take rows one at a time, so the position in the file shows how much was read for the first row."""
    samples = {
        "csv": b"content\n" + b"a fact\n" * 200_000,
        "mem0": as_json(results=[MEM0_MEMORY] * 5_000),
        "mcp-memory": lines(*[ENTITY] * 5_000),
    }
    for name, content in samples.items():
        file = io.BytesIO(content)
        next(iter(FORMATS[name].read(file, "sample")))
        assert file.tell() < len(content) / 4, name


def test_the_callers_file_stays_open() -> None:
    for name, file_name, content in FILES:
        file = io.BytesIO(content)
        list(FORMATS[name].read(file, file_name))
        assert not file.closed


def test_names_of_csv_and_markdown_extensions_are_compared_without_case() -> None:
    assert comma_separated.recognizes(b"content\nx", "A.CSV")
    assert markdown.recognizes(b"A text", "README.MD")


def test_an_empty_part_of_a_chat_export_loses_nothing() -> None:
    whole = rows("claude", zipped({"conversations.json": json.dumps([CLAUDE_CONVERSATION])}))
    parts = {"conversations.json": json.dumps([CLAUDE_CONVERSATION]), "projects.json": "[]", "memories.json": "[]"}
    assert rows("claude", zipped(parts)) == whole
    broken = rows("claude", zipped({**parts, "projects.json": '[{"uuid": '}))
    assert broken[: len(whole)] == whole
    assert broken[-1].place == "projects.json"
    assert broken[-1].problem


def test_a_message_from_the_future_gets_the_time_of_its_neighbors() -> None:
    messages = [
        ChatMessage("a", "human", "What is a pallet?", "2026-03-01T10:00:00Z"),
        ChatMessage("b", "ai", "A unit.", "2999-01-01"),
    ]
    assert [row.data["created_at"][:10] for row in turn_rows("x", "claude:1", "", messages)] == ["2026-03-01"] * 2


@pytest.mark.parametrize("start", ["sep=;\r\n", "\r\n\r\n", ";;\r\n", "Our facts, 2026;\r\n;\r\n", "Facts\r\n"])
def test_a_csv_may_begin_with_blank_lines_titles_and_the_separator(start: str) -> None:
    content = f"{start}content;tags\r\nRevenue excludes refunds, always.;a,b\r\n".encode()
    assert FORMATS["csv"].recognizes(content, "facts.csv")
    (row,) = rows("csv", content)
    assert (row.data["content"], row.data["tags"]) == ("Revenue excludes refunds, always.", ["a", "b"])


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("202403011200", "2024-03-01T12:00:00+00:00"),
        ("20240301123456", "2024-03-01T12:34:56+00:00"),
        (202403011200, "2024-03-01T12:00:00+00:00"),
        (20240301, "2024-03-01T00:00:00+00:00"),
        ("20240301", "2024-03-01T00:00:00+00:00"),
        (1709294400, "2024-03-01T12:00:00+00:00"),
        ("1709294400000", "2024-03-01T12:00:00+00:00"),
    ],
)
def test_times_without_separators_are_no_seconds(value: Any, time: str) -> None:
    assert timestamp(value) == time


def test_lines_of_json_may_begin_with_a_byte_order_mark() -> None:
    lines = b"\n".join(json.dumps(MEM0_MEMORY | {"id": key}).encode() for key in ("1", "2"))
    assert len(rows("mem0", codecs.BOM_UTF8 + lines)) == 2


def test_a_date_on_which_a_memory_expires_means_its_end() -> None:
    today = timezone.now().date().isoformat()
    (row,) = rows("mem0", as_json(results=[MEM0_MEMORY | {"expiration_date": today}]))
    assert row.data["valid_until"] == today
