"""Object stores, on an S3 server: lists, contents, personas and limits."""

from __future__ import annotations

import gzip
import json
import posixpath
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import duckdb
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import source_health
from analysis.admin import DeclaredSourceForm
from analysis.models import DeclaredSource
from analysis.sources.interface import UpstreamFailed
from analysis.sql import file_reading
from analysis.sql.values import MAX_CELL
from analysis.storage import formats, keys, s3
from analysis.storage.mcp_tools import TOOLS, object_info, object_list, object_read
from analysis.storage.signing import Credentials, signed
from foundation.operations.errors import Degraded, Invalid, LimitReached, NotFound
from foundation.people.caller import OPERATE, Caller

pytestmark = pytest.mark.django_db

ODD_KEYS = ["a//b.csv", "dir/", "sp ace+plus%20#?&é~'()*!.csv", " lead.csv", "orders/part 1.csv", "z.csv"]
SIGNED = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
IN_TWO_MEMBERS = gzip.compress(b"a,b\n1,x\n", mtime=0) + gzip.compress(b"2,y\n", mtime=0)  # equal in every process
DECLARATION = """
kind = "s3"
bucket = "lake"
prefix = "sales"
endpoint = "{endpoint}"
access_key_env = "SOURCE_LAKE_KEY"
secret_key_env = "SOURCE_LAKE_SECRET"
read_personas = ["sales"]
"""


class Server:
    """An S3 server with a bucket `lake`."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._client = httpx.Client(base_url=endpoint, headers={"authorization": SIGNED})
        self.put("/lake")

    def put(self, path: str, body: bytes = b"") -> None:
        self._client.put(quote(path), content=body).raise_for_status()

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    moto = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    try:
        with closing(Server(f"http://{host}:{port}")) as server:
            for key in ODD_KEYS:
                server.put(f"/lake/sales/{key}", b"a\n1\n")
            server.put("/lake/sales-secret/salaries.csv", b"salary\n90000\n")
            server.put("/lake/secret.csv", b"password\nhunter2\n")
            yield server
    finally:
        moto.stop()


@pytest.fixture
def lake(server: Server, monkeypatch: pytest.MonkeyPatch) -> DeclaredSource:
    """The folder `sales` of the bucket, declared for the persona sales."""
    monkeypatch.setenv("SOURCE_LAKE_KEY", "AKIAEXAMPLE")
    monkeypatch.setenv("SOURCE_LAKE_SECRET", "s3cr3t")
    return DeclaredSource.objects.create(name="lake", declaration=DECLARATION.format(endpoint=server.endpoint))


def declare(lake: DeclaredSource, lines: str) -> None:
    DeclaredSource.objects.filter(pk=lake.pk).update(declaration=lake.declaration + lines)


def all_keys(caller: Caller, **arguments: Any) -> list[str]:
    """Read all pages and return the keys and folders, in their order."""
    found: list[str] = []
    cursor = ""
    while True:
        page = object_list(caller, cursor=cursor, **arguments)
        found += sorted([*page["folders"], *(entry["key"] for entry in page["objects"])])
        cursor = page.get("cursor", "")
        if not cursor:
            return found


# -- lists -------------------------------------------------------------------------------------------------


def test_folders_and_files_are_listed_page_by_page(alice: Caller, lake: DeclaredSource) -> None:
    page = object_list(alice, limit=2)
    assert (page["store"], page["location"], page["folders"]) == ("lake", "s3://lake/sales/", ["a/"])
    assert page["objects"][0].keys() == {"key", "size", "modified"}
    expected = sorted([" lead.csv", "a/", "dir/", "orders/", "sp ace+plus%20#?&é~'()*!.csv", "z.csv"])
    assert all_keys(alice, limit=2) == expected
    assert all_keys(alice, prefix="orders/") == ["orders/part 1.csv"]
    assert all_keys(alice, limit=1, recursive=True) == sorted(ODD_KEYS)
    assert "no key begins" in object_list(alice, prefix="nothing")["note"]


def test_a_page_that_exceeds_the_size_of_a_response_loses_nothing(
    alice: Caller, lake: DeclaredSource, settings: Any
) -> None:
    settings.ANSWER_BUDGET_BYTES = 1_300
    assert len(object_list(alice, recursive=True)["objects"]) < len(ODD_KEYS)
    assert all_keys(alice, recursive=True) == sorted(ODD_KEYS)


@pytest.mark.parametrize(
    "key",
    ["../secret.csv", "/secret.csv", "//lake/secret.csv", "a/../../secret.csv", "%2e%2e/secret.csv", "..%2Fsecret.csv",
     "%252e%252e/secret.csv", "%2Fsecret.csv", "..\\secret.csv", "a/./b", "x" * 1_020],
)  # fmt: skip
def test_no_key_leads_out_of_the_folder(
    alice: Caller, lake: DeclaredSource, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(s3.Bucket, "_send", lambda *arguments, **options: pytest.fail("a request was sent"))
    for tool, field in ((object_read, "key"), (object_info, "key"), (object_list, "prefix")):
        with pytest.raises(Invalid, match=f"{field}: (leads outside|is too long)"):
            tool(alice, **{field: key})


@given(text=st.text(alphabet="./\\%2eEfF5cCa \n", max_size=12))
def test_what_is_accepted_stays_in_the_folder_however_it_is_decoded(text: str) -> None:
    try:
        key = keys.check("key", text, "sales/")
    except Invalid:
        return
    for decoded in (key, unquote(key), unquote(unquote(key))):
        path = posixpath.normpath(f"/lake/{decoded}".replace("\\", "/"))
        assert f"{path}/".startswith("/lake/sales/")


def test_a_folder_does_not_reach_others_that_begin_with_its_name(alice: Caller, lake: DeclaredSource) -> None:
    assert not any("secret" in key for key in all_keys(alice, recursive=True))
    with pytest.raises(NotFound, match="key: there is no such object"):
        object_read(alice, key="-secret/salaries.csv")


# -- personas ----------------------------------------------------------------------------------------------


def test_only_the_personas_of_a_store_read_it(alice: Caller, olga: Caller, ada: Caller, lake: DeclaredSource) -> None:
    for tool in TOOLS:
        assert tool.is_available is not None
        assert [tool.is_available(caller) for caller in (alice, olga, ada)] == [True, False, True]
    for tool, arguments in ((object_list, {}), (object_info, {"key": "z.csv"}), (object_read, {"key": "z.csv"})):
        tool(alice, **arguments)
        with pytest.raises(Invalid, match="store: is missing; allowed: none, because no store is declared"):
            tool(olga, **arguments)
        with pytest.raises(Invalid, match="store: 'lake' is unknown"):
            tool(olga, store="lake", **arguments)
    DeclaredSource.objects.filter(pk=lake.pk).update(declaration=lake.declaration.replace('["sales"]', "[]"))
    with pytest.raises(Invalid, match="store"):
        object_list(alice)
    assert object_list(replace(alice, rights=frozenset({OPERATE})))["store"] == "lake"


# -- contents ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "body", "columns", "rows"),
    [
        (
            "t/a.csv",
            b'id;at;name\n1;2026-05-01;"x;y"\n2;2026-05-02;z\xe9\n',
            "id BIGINT, at DATE, name VARCHAR",
            [[1, "2026-05-01", "x;y"], [2, "2026-05-02", "zé"]],
        ),
        ("t/a.csv.gz", IN_TWO_MEMBERS, "a BIGINT, b VARCHAR", [[1, "x"], [2, "y"]]),
        ("t/a.tsv", b"a\tb\n1,5\tx\n", "a VARCHAR, b VARCHAR", [["1,5", "x"]]),
        ("t/a.jsonl", b'{"a": 1}\n{"a": 9007199254740993}\n', "a BIGINT", [[1], ["9007199254740993"]]),
        ("t/a.json", b'[{"a": {"b": [1]}}, {"a": null}]', "a STRUCT(b BIGINT[])", [[{"b": [1]}], [None]]),
        ("t/one.json", b'{\n "a": true\n}', "a BOOLEAN", [[True]]),
        ("t/half.json", rb'[{"a": "\ud800"}]', "a VARCHAR", [["?"]]),
        ("t/none.csv", b"", "", []),
    ],
)  # fmt: skip
def test_tables_are_returned_as_columns_with_types_and_rows(
    alice: Caller, lake: DeclaredSource, server: Server, key: str, body: bytes, columns: str, rows: list[Any]
) -> None:
    server.put(f"/lake/sales/{key}", body)
    response = object_read(alice, key=key)
    assert ", ".join(f"{column['name']} {column['type']}" for column in response["columns"]) == columns
    assert response["rows"] == rows
    assert (response["size"], response["location"]) == (len(body), f"s3://lake/sales/{key}")


@pytest.mark.parametrize(
    ("key", "body"),
    [
        ("t/nan.json", b'[{"a": NaN, "b": "a NaN, \\" -Infinity"}, {"a": -Infinity, "b": "x"}, {"a": 3, "b": "y"}]'),
        ("t/nan.jsonl", b'{"a": NaN, "b": "a NaN, \\" -Infinity"}\n{"a": -Infinity, "b": "x"}\n{"a": 3, "b": "y"}\n'),
    ],
)
def test_numbers_that_json_does_not_know_are_null_and_named(
    alice: Caller, lake: DeclaredSource, server: Server, key: str, body: bytes
) -> None:
    server.put(f"/lake/sales/{key}", body)
    response = object_read(alice, key=key)
    assert response["rows"] == [[None, 'a NaN, " -Infinity'], [None, "x"], [3, "y"]]
    assert "NaN and infinite values were read as null" in response["note"]


def test_a_broken_line_does_not_change_the_texts_of_others() -> None:
    lines = '{"a": 1}\n{"a": "broken}\n{"a": NaN, "b": "price is NaN today"}\n'
    assert formats.without_nan(lines) == lines.replace("NaN,", "null,")
    cut = '[{"a": NaN}, {"b": "' + r"\"x\", " * 50_000
    assert formats.without_nan(cut) == cut.replace("NaN", "null")  # in linear time


def test_texts_are_returned_in_lines_and_anything_else_is_named(
    alice: Caller, lake: DeclaredSource, server: Server
) -> None:
    server.put("/lake/sales/t/notes", "Zwölf\r\n".encode() + b"x" * 5_000 + b"\nthird\n")
    response = object_read(alice, key="t/notes", limit=2)
    assert response["text"].startswith("Zwölf\nxxx")
    assert (response["format"], len(response["text"]) < MAX_CELL + 100) == ("text", True)
    assert "there is more text" in response["note"]
    server.put("/lake/sales/t/page.json", b"<html>not found</html>")
    response = object_read(alice, key="t/page.json")
    assert (response["format"], response["text"]) == ("text", "<html>not found</html>")
    assert "returned as text, because it can't be read as json" in response["note"]
    with pytest.raises(Invalid, match="is not a Parquet file"):
        object_read(alice, key="t/page.json", format="parquet")
    server.put("/lake/sales/t/picture.png", bytes(range(256)))
    assert object_read(alice, key="t/picture.png")["format"] == "binary"
    assert object_read(alice, key="t/notes", format="csv", limit=1)["format"] == "csv"


def test_a_long_text_is_read_up_to_the_limit_of_the_store(alice: Caller, lake: DeclaredSource, server: Server) -> None:
    declare(lake, "text_bytes = 2_000\n")
    server.put("/lake/sales/t/long.csv", b"id,name\n" + b"".join(b"%d,name\n" % n for n in range(5_000)))
    response = object_read(alice, key="t/long.csv", limit=1_000)
    assert 100 < len(response["rows"]) < 300
    assert response["rows"][-1][1] == "name"
    assert "there are more rows" in response["note"]
    server.put("/lake/sales/t/array.json", json.dumps([{"n": n} for n in range(5_000)]).encode())
    response = object_read(alice, key="t/array.json", limit=1_000)
    assert response["rows"] == [[n] for n in range(len(response["rows"]))]
    assert 100 < len(response["rows"]) < 300
    server.put("/lake/sales/t/wide.csv", b"x" * 5_000)
    with pytest.raises(LimitReached, match=r"first line of the object has more than 2,000 bytes \(text_bytes"):
        object_read(alice, key="t/wide.csv")


def test_a_gzip_bomb_is_decompressed_up_to_the_limit(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a,b\n" * 2_500_000) * 2
    begun = formats.beginning(bomb, tmp_path / "object", 10_000, is_whole=True)
    assert (len(begun.text), begun.is_whole, begun.is_gzip) == (10_000, False, True)
    assert (tmp_path / "object").stat().st_size == 10_000


@pytest.fixture
def orders(lake: DeclaredSource, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Puts a Parquet file with ten row groups, and returns a list of the numbers of bytes that are read of it."""
    path = tmp_path / "orders.parquet"
    with duckdb.connect() as database:
        database.sql(
            "SELECT range AS id, {'net': range, 'items': [range, 1]} AS amount, md5(range::text) AS pad, "
            "INTERVAL 2 MONTH AS term FROM range(20480)"
        ).write_parquet(str(path), row_group_size=2048)
    server.put("/lake/sales/orders.parquet", path.read_bytes())
    lengths: list[int] = []
    read = s3.Bucket.read

    def counted(bucket: s3.Bucket, key: str, start: int, length: int, etag: str = "") -> bytes:
        lengths.append(length)
        return read(bucket, key, start, length, etag)

    monkeypatch.setattr(s3.Bucket, "read", counted)
    return lengths


def test_of_a_parquet_file_the_footer_and_the_first_rows_are_read(
    alice: Caller, lake: DeclaredSource, orders: list[int]
) -> None:
    response = object_read(alice, key="orders.parquet", limit=2)
    kinds = {column["name"]: column["type"] for column in response["columns"]}
    assert kinds == {
        "id": "BIGINT",
        "amount": "STRUCT(net BIGINT, items BIGINT[])",
        "pad": "VARCHAR",
        "term": "INTERVAL",
    }
    assert response["rows"][1][:2] == [1, {"net": 1, "items": [1, 1]}]
    assert (response["rows"][1][3], response["total_rows"]) == ("2 months", 20_480)
    assert sum(orders) < response["size"] / 3


def test_columns_of_a_parquet_file_can_be_chosen_if_they_do_not_fit_together(
    alice: Caller, lake: DeclaredSource, orders: list[int]
) -> None:
    declare(lake, "parquet_bytes = 100_000\n")
    response = object_read(alice, key="orders.parquet", limit=5_000)
    shown = [column["name"] for column in response["columns"]]
    assert shown == ["id", "amount"]
    assert [column["name"] for column in response["other_columns"]] == ["pad", "term"]
    assert "100,000 bytes (parquet_bytes of the store): name fewer in columns" in response["note"]
    assert len(response["rows"]) == 1_000  # of the first row group, whose other columns are missing
    response = object_read(alice, key="orders.parquet", columns=["term", "id"], limit=1)
    assert response["rows"] == [["2 months", 0]]
    with pytest.raises(Invalid, match="columns: 'nett' is no column of the file; allowed: id, amount, pad, term"):
        object_read(alice, key="orders.parquet", columns=["nett"])
    with pytest.raises(Invalid, match="columns: is for Parquet files only"):
        object_read(alice, key="z.csv", columns=["a"])


@pytest.mark.parametrize(
    "body",
    [
        b"PAR1" + b"\0" * 100 + (2**31).to_bytes(4, "little") + b"PAR1",
        b"PAR1" + b"\xff" * 100 + (100).to_bytes(4, "little") + b"PAR1",
        b"PAR1",
        b"",
    ],
)
def test_a_broken_parquet_file_is_an_error(alice: Caller, lake: DeclaredSource, server: Server, body: bytes) -> None:
    server.put("/lake/sales/t/broken.parquet", body)
    with pytest.raises((Invalid, UpstreamFailed), match=r"not a Parquet file|can't read the object") as raised:
        object_read(alice, key="t/broken.parquet")
    assert "/tmp" not in str(raised.value)
    assert object_read(alice, key="z.csv")["rows"] == [[1]]


def test_duckdb_reads_the_copied_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "object").write_text("a\n1\n")
    (tmp_path / "other.csv").write_text("password\nhunter2\n")
    (tmp_path / "spill").mkdir()
    with closing(file_reading._opened(str(tmp_path / "object"), str(tmp_path / "spill"), 100, 10)) as connection:
        assert connection.execute("SELECT * FROM read_csv(?)", [str(tmp_path / "object")]).fetchall() == [(1,)]
        for other in (tmp_path / "other.csv", "https://example.org/a.csv", "s3://lake/secret.csv", tmp_path):
            with pytest.raises(duckdb.PermissionException):
                connection.execute("SELECT * FROM read_csv(?)", [str(other)])
        for statement in ("SET enable_external_access = true", f"ATTACH '{tmp_path}/x.duckdb'", "INSTALL httpfs"):
            with pytest.raises(duckdb.Error):
                connection.execute(statement)


def test_the_properties_of_a_file(alice: Caller, lake: DeclaredSource) -> None:
    info = object_info(alice, key="z.csv")
    assert (info["size"], info["location"], info["storage_class"]) == (4, "s3://lake/sales/z.csv", "STANDARD")
    assert {"modified", "etag", "content_type"} <= info.keys()
    with pytest.raises(NotFound, match="key: there is no such object; allowed: a key as object_list returns it"):
        object_info(alice, key="orders")


# -- credentials and declarations --------------------------------------------------------------------------


def test_a_request_is_signed_as_amazon_documents_it() -> None:
    """The example "GET Bucket (List Objects)" of the documentation that signing.py names."""
    headers = signed(
        "GET",
        "examplebucket.s3.amazonaws.com",
        "/",
        "max-keys=2&prefix=J",
        credentials=Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region="us-east-1",
        now=datetime(2013, 5, 24, tzinfo=UTC),
    )
    signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
    assert headers["authorization"].endswith(f"Signature={signature}")
    temporary = Credentials("a", "b", "t")
    headers = signed("GET", "h", "/", "", credentials=temporary, region="r", now=datetime(2013, 5, 24, tzinfo=UTC))
    assert "x-amz-date;x-amz-security-token," in headers["authorization"]
    assert headers["x-amz-security-token"] == "t"


def test_missing_credentials_are_named(alice: Caller, lake: DeclaredSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_LAKE_SECRET")
    with pytest.raises(Degraded, match="the source 'lake' needs the environment variable SOURCE_LAKE_SECRET"):
        object_list(alice)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (('bucket = "lake"', ""), "Field required"),
        (('bucket = "lake"', 'bucket = "lake/../x"'), "pattern"),
        (('prefix = "sales"', 'prefix = "../x"'), "must be a folder of the bucket"),
        (("SOURCE_LAKE_KEY", "DATABASE_URL"), "begin with SOURCE_"),
        (('secret_key_env = "SOURCE_LAKE_SECRET"', ""), "must be declared together"),
        (("{endpoint}", "http://user:password@lake.example"), "without credentials"),
        (("{endpoint}", "file:///etc"), "must be http"),
        (('kind = "s3"', 'kind = "s3"\nurl = "x"'), "Extra inputs"),
        (('kind = "s3"', 'kind = "s3"\nregion = "x.evil.example/"'), "pattern"),
    ],
)
def test_the_form_explains_an_invalid_declaration(change: tuple[str, str], fault: str) -> None:
    text = DECLARATION.replace(*change).format(endpoint="https://s3.example.org")
    form = DeclaredSourceForm({"name": "lake", "declaration": text, "is_enabled": True})
    assert fault in str(form.errors["declaration"].as_text())


def test_an_operator_tries_a_declaration(ada: Caller, lake: DeclaredSource) -> None:
    assert DeclaredSourceForm({"name": "l", "declaration": lake.declaration, "is_enabled": True}).is_valid()
    trial = source_health.try_declaration(ada, name="lake", text=lake.declaration)
    assert (trial.error, trial.lines[1]) == ("", "read by: sales")
    missing = lake.declaration.replace('"lake"', '"nowhere"', 1)
    error = source_health.try_declaration(ada, name="lake", text=missing).error
    assert error == "the store 'lake' refused the request (NoSuchBucket 404): its bucket doesn't exist"


def test_a_store_of_the_admin_has_a_public_host(alice: Caller, lake: DeclaredSource, settings: Any) -> None:
    settings.ANALYSIS_PRIVATE_HOSTS = []
    with pytest.raises(UpstreamFailed, match="has no public address; allowed: public hosts"):
        object_list(alice)
