"""Object stores whose server is slow, broken or hostile, on a stand-in that returns anything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

import pytest

from analysis.models import DeclaredSource
from analysis.sources.interface import UpstreamFailed
from analysis.storage import s3
from analysis.storage.mcp_tools import object_info, object_list, object_read
from foundation.operations.errors import DomainError, Invalid, NotFound
from foundation.people.caller import Caller
from tests.http_servers import QuietHandler, serving

pytestmark = pytest.mark.django_db

KEY, SECRET = "AKIAHIDDEN", "s3cr3t-key"
DECLARATION = """
kind = "s3"
bucket = "lake"
prefix = "sales"
endpoint = "{endpoint}"
access_key_env = "SOURCE_LAKE_KEY"
secret_key_env = "SOURCE_LAKE_SECRET"
read_personas = ["sales"]
timeout_s = 60
"""
LISTING = (
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>'
    "<IsTruncated>false</IsTruncated>{}</ListBucketResult>"
)
ERROR = (
    "<Error><Code>{}</Code><Message>credentials AKIAHIDDEN/20260101 of 10.1.2.3</Message>"
    "<StringToSign>s3cr3t-key</StringToSign></Error>"
)


class Handler(QuietHandler):
    protocol_version = "HTTP/1.1"
    answer: Callable[[Handler], None]
    paths: list[str]

    def do_GET(self) -> None:
        type(self).paths.append(self.path)
        type(self).answer(self)

    do_HEAD = do_GET

    def reply(self, status: int, body: bytes | str = b"", **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"content_length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)


@pytest.fixture
def handler(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Handler]]:
    class Own(Handler):
        paths: list[str] = []

    monkeypatch.setenv("SOURCE_LAKE_KEY", KEY)
    monkeypatch.setenv("SOURCE_LAKE_SECRET", SECRET)
    monkeypatch.setattr(s3, "MAX_PAUSE_S", 0.01)
    with serving(Own) as endpoint:
        DeclaredSource.objects.create(name="lake", declaration=DECLARATION.format(endpoint=endpoint))
        yield Own


def reply(status: int, body: bytes | str = b"", **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.reply(status, body, **headers)


def trickle(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("content-length", "1000")
    handler.end_headers()
    for _ in range(1_000):
        handler.wfile.write(b" ")
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(403, ERROR.format("SignatureDoesNotMatch")), "SignatureDoesNotMatch 403.: its secret key is wrong"),
        (reply(400, ERROR.format("AKIAHIDDEN s3cr3t-key")), r"refused the request \(400\)"),
        (reply(503, ERROR.format("SlowDown")), r"refused the request \(SlowDown 503\)"),
        (reply(500, "<" * 10_000), r"refused the request \(500\)"),
        (reply(400, b"x" * 100_000), "is larger than requested"),
        (reply(307, location="http://169.254.169.254/"), "redirects to another address$"),
        (reply(301, x_amz_bucket_region="eu-west-1"), "its bucket is in the region eu-west-1"),
        (reply(301, x_amz_bucket_region="<b>s3cr3t-key"), "redirects to another address$"),
        (reply(200, "<html>"), "returned no valid listing"),
        (reply(200, "<html/>"), "returned no valid listing"),
        (reply(200, LISTING.format("<Contents><Key>sales/a</Key><Size>many</Size></Contents>")), "no valid listing"),
        (reply(200, LISTING.format("<Contents><Key>sales/a</Key></Contents>" * 101)), "returned no valid listing"),
        (reply(200, f'<!DOCTYPE a [<!ENTITY b "c">]>{LISTING}'), "returned no valid listing"),
        (reply(200, f'<!DOCTYPE a [<!ENTITY b "c">]>{LISTING}'.encode("utf-16")), "returned no valid listing"),
        (reply(200, content_length="9999999999"), "did not answer within 1 s"),
        (lambda handler: handler.connection.shutdown(2), r"can't be reached \("),
        (trickle, r"did not answer within 1 s \(timeout_s of the store\): try again"),
        (lambda handler: time.sleep(1.5), r"did not answer within 1 s"),
    ],
)  # fmt: skip
def test_a_failing_store_is_an_upstream_error_without_credentials_and_addresses(
    alice: Caller, handler: type[Handler], answer: Callable[[Handler], None], message: str
) -> None:
    handler.answer = answer
    if "within 1 s" in message:
        DeclaredSource.objects.update(
            declaration=DeclaredSource.objects.get().declaration.replace("timeout_s = 60", "timeout_s = 1")
        )
    with pytest.raises(UpstreamFailed, match=message) as raised:
        object_list(alice)
    assert raised.value.code == "upstream"
    for private in (KEY, SECRET, "127.0.0.1", "10.1.2.3", "169.254"):
        assert private not in raised.value.message


def test_a_store_that_is_away_is_an_upstream_error(alice: Caller, handler: type[Handler]) -> None:
    declaration = DeclaredSource.objects.get().declaration
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    DeclaredSource.objects.update(
        declaration=declaration.replace("endpoint = ", f'endpoint = "http://127.0.0.1:{port}" #')
    )
    with pytest.raises(UpstreamFailed, match=r"the store 'lake' can't be reached \(ConnectError\)"):
        object_list(alice)


def test_a_busy_store_is_asked_again(alice: Caller, handler: type[Handler]) -> None:
    handler.answer = lambda request: request.reply(503) if len(handler.paths) < 3 else request.reply(200, LISTING)
    assert object_list(alice)["objects"] == []
    assert len(handler.paths) == 3


def test_keys_outside_of_the_folder_are_left_out_and_line_breaks_kept(alice: Caller, handler: type[Handler]) -> None:
    keys = ["secret.csv", "sales-secret/a", "sales/li%0Ane%00%1B.csv", "sales/..%2Fx", "sales/%FF.csv"]
    entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
    entries += "".join(f"<CommonPrefixes><Prefix>{key}/</Prefix></CommonPrefixes>" for key in ("other", "sales/in"))
    handler.answer = reply(200, LISTING.format(entries))
    response = object_list(alice)
    assert [entry["key"] for entry in response["objects"]] == ["li\nne\0\x1b.csv", "../x", "\ufffd.csv"]
    assert (response["folders"], "\n" not in json.dumps(response)) == (["in/"], True)
    handler.answer = reply(404)
    with pytest.raises(NotFound):
        object_read(alice, key="li\nne.csv HTTP/1.1\r\nX-Evil: 1")
    assert handler.paths[-1] == "/lake/sales/li%0Ane.csv%20HTTP/1.1%0D%0AX-Evil%3A%201"


def test_a_cursor_is_a_value_and_no_part_of_the_request(alice: Caller, handler: type[Handler]) -> None:
    handler.answer = reply(200, LISTING)
    object_list(alice, cursor="x&prefix=secret#", prefix="a&prefix=secret")
    assert handler.paths == [
        "/lake/?continuation-token=x%26prefix%3Dsecret%23&delimiter=%2F&encoding-type=url&list-type=2&max-keys=100"
        "&prefix=sales%2Fa%26prefix%3Dsecret"
    ]
    handler.answer = reply(400, ERROR.format("InvalidArgument"))
    with pytest.raises(Invalid, match="cursor: is not valid"):
        object_list(alice, cursor="x")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (reply(200, b"x" * 2_000_000), "is larger than requested"),
        (reply(206, b"x"), "didn't return the requested part"),
        (reply(412), "was replaced while it was read: try again"),
        (reply(206, b"\x1f\x8b" + b"x" * 98), "is no valid gzip file"),
        (reply(416), r"refused the request \(416\)"),
    ],
)  # fmt: skip
def test_only_the_requested_bytes_are_taken(
    alice: Caller, handler: type[Handler], answer: Callable[[Handler], None], message: str
) -> None:
    def answering(request: Handler) -> None:
        request.reply(200, b"x" * 100, etag='"e"') if request.command == "HEAD" else answer(request)

    handler.answer = answering
    with pytest.raises(UpstreamFailed, match=message):
        object_read(alice, key="a.csv")


def test_the_size_of_an_object_is_not_trusted(alice: Caller, handler: type[Handler]) -> None:
    def answering(request: Handler) -> None:
        if request.command == "HEAD":
            request.send_response(200)
            request.send_header("content-length", str(10**15))
            request.end_headers()
        else:
            request.reply(206, b"x" * 10)

    handler.answer = answering
    for key in ("a.csv", "a.parquet"):
        with pytest.raises(DomainError, match="didn't return the requested part"):
            object_read(alice, key=key)
    handler.answer = reply(200, content_length="x")
    with pytest.raises(UpstreamFailed, match=r"can't be reached|doesn't tell the size"):
        object_info(alice, key="a.csv")
