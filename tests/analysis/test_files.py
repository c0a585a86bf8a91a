"""File sources: delimiters, encodings, irregular rows and lines that can't be read."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import rendering
from analysis.ingest import IngestResult, ingest
from analysis.models import IngestedRecord
from analysis.operations import IngestRecords
from analysis.sources.declaration import Resource, parse
from analysis.sources.files import FileUpstream
from analysis.sources.interface import UpstreamFailed
from analysis.sources.text_format import delimiter_of, detect_encoding, layout
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller


@pytest.fixture
def folder(tmp_path: Path, settings: Any) -> Path:
    settings.ANALYSIS_FILES, settings.ANALYSIS_SOURCES = str(tmp_path), str(tmp_path / "sources.toml")
    return tmp_path


def read(folder: Path, name: str, content: bytes, caller: Caller, declared: str = "", **arguments: Any) -> IngestResult:
    (folder / name).write_bytes(content)
    (folder / "sources.toml").write_text(
        f'kind = "file"\nread_personas = ["sales"]\n[models.file]\npath = "{name}"\n{declared}'
    )
    operation = {"analysis_id": "f", "model": "file", "ingest_all": True, **arguments}
    return ingest(caller, IngestRecords.read(operation))


def stored() -> list[dict[str, Any]]:
    return [record.data for record in IngestedRecord.objects.all()]


@pytest.mark.django_db
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    ("encoding", "stated"),
    [("utf-8", "utf-8"), ("latin-1", "latin-1"), ("utf-8-sig", "utf-8-sig"), ("utf-16", "utf-16")],
)
def test_the_dialect_of_a_csv_file_is_detected_and_stated(
    folder: Path, alice: Caller, delimiter: str, encoding: str, stated: str
) -> None:
    rows = [["id", "größe", "note"], ["1", "1,5; ca. 2|3", "süß"], ["2", "2,5", "a\tb"], ["3", "", "x"]]
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    result = read(folder, "a.csv", text.getvalue().encode(encoding), alice)
    assert stored() == [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    note = f"Read as CSV with the delimiter {delimiter!r} and the encoding {stated}"
    assert note in rendering.ingest_answer(result).text
    assert result.complete


@pytest.mark.django_db
def test_a_declared_dialect_is_used_as_it_is(folder: Path, alice: Caller) -> None:
    content = "id;a,b\n1;ž,x\n".encode("iso8859-2")
    result = read(folder, "a.csv", content, alice, 'delimiter = ","\nencoding = "iso8859-2"')
    assert stored() == [{"id;a": "1;ž", "b": "x"}]
    assert result.notes == ["read as CSV with the delimiter ',' and the encoding iso8859-2"]


@pytest.mark.parametrize("line", ['delimiter = ";;"', 'encoding = "klingon"', 'encoding = "base64"'])
def test_an_unusable_dialect_is_refused(line: str) -> None:
    with pytest.raises(Invalid, match=r"files\.models\.file\.(delimiter|encoding)"):
        parse("files", f'kind = "file"\n[models.file]\npath = "a.csv"\n{line}')


@pytest.mark.django_db
def test_windows_quotes_and_few_broken_bytes_are_recognized(folder: Path, alice: Caller) -> None:
    assert "cp1252" in read(folder, "a.csv", "id,text\n1,„größer“ – 5 €".encode("cp1252"), alice).notes[0]
    assert stored()[0]["text"] == "„größer“ – 5 €"
    text = "id,text\n" + "".join(f"{n},größe süß\n" for n in range(50))
    assert "utf-8" in read(folder, "a.csv", text.encode() + b"99,\xff\n", alice).notes[0]
    assert stored()[-1]["text"] == "\ufffd"


@pytest.mark.django_db
def test_ragged_rows_keep_their_values_and_are_stated(folder: Path, alice: Caller) -> None:
    result = read(folder, "a.csv", b"id,name,city\n1,Ann\n2,Bob,Bonn,x,y\n\n3,Cem,Ulm\n", alice)
    assert stored() == [
        {"id": "1", "name": "Ann", "city": None},
        {"id": "2", "name": "Bob", "city": "Bonn", "_more": ["x", "y"]},
        {"id": "3", "name": "Cem", "city": "Ulm"},
    ]
    text = rendering.ingest_answer(result).text
    assert "Rows with more or fewer values than columns: 2." in text
    assert "line 2 has 2 values, not 3" in text
    assert "line 3 has 5 values, not 3" in text


@pytest.mark.django_db
def test_columns_of_the_same_name_or_without_name_are_kept(folder: Path, alice: Caller) -> None:
    read(folder, "a.csv", b"id,a,,a\n1,x,y,z\n", alice)
    assert stored() == [{"id": "1", "a": "x", "column_3": "y", "a_2": "z"}]


@pytest.mark.django_db
@pytest.mark.parametrize("per_page", [1, 2, 50])
def test_a_malformed_json_line_is_named_and_skipped(folder: Path, alice: Caller, per_page: int) -> None:
    lines = ['{"id": 1}', "", '{"id": 2', "{" * 100_000, '{"id": 3, "text": "a\u2028b\u0085c"}', "7", '{"id": 4}']
    result = read(folder, "a.jsonl", "\r\n".join(lines).encode(), alice, per_page=per_page)
    assert [row.get("id", row.get("value")) for row in stored()] == [1, 3, 7, 4]
    assert (result.records, result.skipped, result.complete) == (4, 2, True)
    assert "line 3 is not valid JSON" in "; ".join(result.notes)
    assert "line 4 is not valid JSON" in "; ".join(result.notes)


@pytest.mark.django_db
def test_json_lines_in_latin_1_are_read(folder: Path, alice: Caller) -> None:
    result = read(folder, "a.jsonl", '{"id": 1, "name": "Jörg"}'.encode("latin-1"), alice)
    assert (stored()[0]["name"], result.notes) == ("Jörg", ["read as JSON lines with the encoding latin-1"])


@settings(max_examples=60)
@given(st.data())
def test_pages_in_any_order_yield_the_rows_of_the_file(folder: Path, data: st.DataObject) -> None:
    (folder / "a.jsonl").write_text("".join(json.dumps({"id": n}) + "\n" for n in range(23)))
    upstream = FileUpstream(Resource(path="a.jsonl"))
    size = data.draw(st.integers(1, 10))
    for number in data.draw(st.lists(st.integers(1, 6), max_size=6)):
        page = upstream.page(number, size, {})
        assert [row["id"] for row in page.rows] == list(range(23))[(number - 1) * size : number * size]
        assert page.cursor == (str(number * size) if number * size < 23 else "")


# -- access --------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_source_without_read_personas_is_for_operators_only(folder: Path, alice: Caller, ada: Caller) -> None:
    assert read(folder, "a.csv", b"id\n1\n", alice).records == 1
    declaration = (folder / "sources.toml").read_text()
    (folder / "sources.toml").write_text(declaration.replace('read_personas = ["sales"]\n', ""))
    operation = IngestRecords.read({"analysis_id": "g", "model": "file"})
    with pytest.raises(Invalid, match=r"'file' is for operators only, because .* names no read_personas"):
        ingest(alice, operation)
    assert ingest(ada, operation).records == 1


@pytest.mark.parametrize("damage", ["missing", "folder", "outside", "suffix", "unreadable", "parquet"])
def test_no_error_has_the_path_of_a_file(folder: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {"suffix": "secret.xls", "parquet": "secret.parquet", "outside": "../secret.csv"}.get(damage, "secret.csv")
    path = folder / name
    if damage == "folder":
        path.mkdir()
    elif damage not in ("missing", "outside"):
        path.write_bytes(b"id\n1\n")
    if damage in ("unreadable", "parquet"):

        def fail(self: Any, *arguments: Any) -> Any:
            if damage == "parquet":
                raise ValueError(f"Could not open Parquet input source '{path}': invalid")
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(FileUpstream, "_read", fail)
    with pytest.raises(UpstreamFailed) as raised:
        FileUpstream(Resource(name="sales", path=name)).page(1, 10, {})
    assert str(folder) not in raised.value.message
    assert "secret" not in raised.value.message


def test_the_delimiter_of_a_header_is_counted_in_linear_time() -> None:
    assert delimiter_of(["a;b;c\n"], ",;\t") == ";"
    assert delimiter_of(["a,b\tc\td\n"], ",;\t") == "\t"
    assert delimiter_of(['"a;b",c\n'], ",;\t") == ","
    assert delimiter_of(["content\n"], ",;\t") == ","


def test_nothing_uses_the_sniffer_of_the_standard_library() -> None:
    # Its regular expressions take seconds for a line of 265 characters, and stop all other threads meanwhile.
    root = Path(__file__).parents[2]
    files = [
        path
        for app in ("foundation", "memories", "knowledge", "analysis", "memory_project")
        for path in (root / app).rglob("*.py")
    ]
    assert [str(path) for path in files if "Sniffer(" in path.read_text()] == []


TABLE = "idImpianto;Gestore;Bandiera;Comune\n" + "".join(f"{n};STAZIONE {n};Agip;ROMA\n" for n in range(20))


@pytest.mark.parametrize(
    ("before", "skipped"),
    [
        ("", 0),
        ("Estrazione del 2025-01-06\n", 1),
        ("sep=;\n", 1),
        ("\ufeffsep=;\n", 1),
        ("sep=;\nEstrazione del 2025-01-06\n\n", 2),
        ("# exported by hand\n# in May\n", 2),
        ("Estrazione del 2025-01-06;;;\n;;;\n", 2),
    ],
)
def test_rows_before_the_header_are_named_and_left_out(tmp_path: Path, before: str, skipped: int) -> None:
    file = tmp_path / "stations.csv"
    file.write_text(before + TABLE, encoding="utf-8")
    assert layout(file, detect_encoding(file)) == (";", skipped)
    assert layout(file, detect_encoding(file), ";") == (";", skipped)


def test_a_ragged_table_keeps_its_first_line_as_the_header(tmp_path: Path) -> None:
    file = tmp_path / "ragged.csv"
    file.write_text("a,b\n1,2,3\n1,2,3\n1,2,3\n")
    assert layout(file, "utf-8") == (",", 0)


def sums(folder: Path, content: str, caller: Caller, declared: str = "") -> tuple[list[str], str]:
    """Return the values of the last column of a CSV file, and how it was read."""
    result = read(folder, "a.csv", content.encode(), caller, declared)
    name = re.split("[,;\t]", content.split("\n")[0])[-1]
    return [row[name] for row in stored()], result.notes[0]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "declared", "values", "note"),
    [
        ("Datum;Wert\n01.01.2025;3,5\n02.01.2025;4,5\n", "", ["3.5", "4.5"], "numbers have decimal commas"),
        ("id;preis;brutto\n1;3,5;4,2\n2;1,0;2,0\n", "", ["4.2", "2.0"], "numbers have decimal commas"),
        ("id\tpreis\n1\t3,5\n2\t1,0\n", "", ["3.5", "1.0"], "numbers have decimal commas"),
        ("name;a;b;c\nx;1,5;2,5;3,5\ny;1,5;2,5;3,5\n", "", ["3.5", "3.5"], "numbers have decimal commas"),
        ("preis\n3,5\n4,5\n", "", ["3.5", "4.5"], "numbers have decimal commas"),
        ("id;preis\n1;1.234,56\n2;2.000\n3;999\n", "", ["1234.56", "2000", "999"], "numbers have decimal commas"),
        ("id;preis\n1;1.234\n2;2.000\n", "", ["1.234", "2.000"], "1.234 was read with a decimal point"),
        ("id;preis\n1;1.234\n2;2.000\n", 'decimal = ","', ["1234", "2000"], "read as CSV"),
        ('id,preis\n1,"1,234.5"\n2,12\n', 'decimal = "."', ["1234.5", "12"], "read as CSV"),
        ("id;ver\n1;1.2.3\n2;10,20,30\n", "", ["1.2.3", "10,20,30"], "read as CSV"),
        ("id;preis\n1\n2;1.234\n3;2.500\n4;n/a\n5;3.100\n6;3.200\n", "", None, "1.234 was read with a decimal point"),
        ("ort;preis;lat\nBerlin;3,50;52.520\nUlm;2,10;48.40\n", "", ["52.520", "48.40"], "numbers have decimal commas"),
        ("preis;id\n3,5;1.001\n2,5;1001\n", "", ["1.001", "1001"], "numbers have decimal commas"),
        ("preis;menge\n3,50;1.234\n1,20;2.500\n2,10;999\n", "", ["1234", "2500", "999"], "numbers have decimal commas"),
        ("preis;kurs\n3,50;1.234\n1,20;0.875\n", "", ["1.234", "0.875"], "numbers have decimal commas"),
        ("id;menge\n1;999\n2;1.234\n3;850\n4;12.500\n5;400\n", "", None, "1.234 was read with a decimal point"),
        ("id;menge\n1;3,5\n2;k.A.\n3;k.A.\n4;1.234\n", "", None, "1.234 was read with a decimal point"),
        ("id;kurs\n1;1.234\n2;1.5\n", "", ["1.234", "1.5"], "read as CSV"),
    ],
)
def test_a_number_is_never_read_as_a_thousandth(
    folder: Path, alice: Caller, content: str, declared: str, values: list[str] | None, note: str
) -> None:
    found, text = sums(folder, content, alice, declared)
    assert values in (None, found)
    assert note in text


@pytest.mark.django_db
def test_a_quotation_mark_that_is_never_closed_swallows_no_row(folder: Path, alice: Caller) -> None:
    content = 'id;grp;t\n1;x;"5 Zoll Rohr\n2;x;"two\nlines"\n3;x;"again\n4;x;y\n'
    result = read(folder, "a.csv", content.encode(), alice)
    assert [row["t"] for row in stored()] == ['"5 Zoll Rohr', "two\nlines", '"again', "y"]
    assert [note for note in result.notes if "never closed" in note] == [
        f"kept an irregular row: line {n} has a quotation mark that is never closed, which was read as a character"
        for n in (2, 5)
    ]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [("utf-16-le", "utf-16-le"), ("utf-16-be", "utf-16-be"), ("utf-32", "utf-32"), ("cp1251", "cp1251")],
)
def test_more_encodings_are_detected(tmp_path: Path, encoding: str, found: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("id,город,заметка\n1,Москва,Склад закрыт в понедельник\n2,Казань,Пустой склад\n".encode(encoding))
    assert detect_encoding(path) == found


@pytest.mark.parametrize(
    ("encoding", "text"), [("shift_jis", "東京の倉庫は月曜日に休みです"), ("gb18030", "上海仓库周一关闭，请周二再来")]
)
def test_encodings_of_east_asia_are_detected(tmp_path: Path, encoding: str, text: str) -> None:
    path = tmp_path / "a.csv"
    content = "id,note\n" + "".join(f"{n},{text}\n" for n in range(20))
    path.write_bytes(content.encode(encoding))
    assert path.read_bytes().decode(detect_encoding(path)) == content


@pytest.mark.django_db
def test_bytes_that_are_replaced_are_stated(folder: Path, alice: Caller) -> None:
    text = "id,text\n" + "".join(f"{n},größe süß\n" for n in range(50))
    result = read(folder, "a.csv", text.encode() + b"99,K\xf6ln\n", alice)
    assert "line 52 has bytes that are not of the encoding" in result.notes[-1]
    result = read(folder, "b.csv", "id;t\n1;x\n".encode("utf-16"), alice, 'encoding = "utf-16-le"', analysis_id="g")
    assert {"id": "1", "t": "x"} in stored()


@pytest.mark.django_db
def test_values_that_are_no_numbers_are_counted(folder: Path, alice: Caller) -> None:
    content = b'{"id": 1, "v": NaN, "w": [Infinity, 1e999]}\n{"id": 2, "v": null}\n'
    result = read(folder, "a.jsonl", content, alice)
    assert "3 values that are NaN or infinite were stored as null" in result.notes


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("name,ÄÖÜ\n1,2\n", "cp1252 latin-1"),
        ("Ort;Preis\nX;€€€\nY;€€€€\n", "cp1252"),
        ("a;b\nx;———\ny;———\n", "cp1252"),
        ("nom;note\nhôtel;£££\n", "cp1252 latin-1"),
    ],
)
def test_signs_in_a_row_are_no_other_script(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode("cp1252"))
    assert detect_encoding(path) in found.split()


def test_a_single_nul_is_no_utf_16(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,\x00\n2,3\n")
    assert detect_encoding(path) == "utf-8"


@pytest.mark.parametrize(
    "content",
    ["Umsatz nach Region\nRegion;2023;2024\nNord;1;2\nSued;3;4\n", "Report 2024\nRegion;2023;2024\nA;1;2\nB;3;4\n"],
)
def test_years_may_be_the_names_of_columns(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert layout(path, "utf-8") == (";", 1)


@pytest.mark.django_db
def test_quotation_marks_beyond_those_that_are_read_are_stated(folder: Path, alice: Caller) -> None:
    content = "id,t\n" + "".join(f'{n},"5\n' for n in range(51)) + '99,"x, y"\n100,"abc,5\n'
    result = read(folder, "a.csv", content.encode(), alice)
    assert result.irregular == 53


@pytest.mark.django_db
def test_rows_with_one_id_and_other_values_are_named(folder: Path, alice: Caller) -> None:
    result = read(folder, "lines.csv", b"id,product,qty\nO1,pallet,5\nO1,box,7\nO2,box,1\nO2,box,1\n", alice)
    assert [row["product"] for row in stored()] == ["box", "box"]
    assert [note for note in result.notes if "id_field" in note] == [
        "1 rows replaced a row with the same id and other values: declare another `id_field` if it is no id"
    ]
