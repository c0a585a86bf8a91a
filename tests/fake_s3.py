"""A stand-in for an S3 server with a few files, for tests that are not about the protocol."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import parse_qs, quote, unquote, urlsplit

from analysis.models import DeclaredSource
from tests import http_servers

DECLARATION = """
kind = "s3"
bucket = "lake"
prefix = "sales"
endpoint = "{endpoint}"
read_personas = ["sales"]
"""


class Handler(http_servers.QuietHandler):
    protocol_version = "HTTP/1.1"
    files: Mapping[str, bytes]  # by key

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        key = unquote(url.path).removeprefix("/lake/")
        if query := parse_qs(url.query):
            self._answer(200, self._listing(query["prefix"][0], "delimiter" in query))
        elif key not in self.files:
            self._answer(404, b"")
        elif match := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", "")):
            self._answer(206, self.files[key][int(match[1]) : int(match[2]) + 1])
        else:
            self._answer(200, self.files[key])

    do_HEAD = do_GET

    def _listing(self, prefix: str, by_folder: bool) -> bytes:
        keys = sorted(key for key in self.files if key.startswith(prefix))
        below = {key: key.removeprefix(prefix).partition("/") for key in keys}
        folders = {prefix + name + "/" for name, slash, _ in below.values() if slash and by_folder}
        files = [key for key, (_, slash, _) in below.items() if not (slash and by_folder)]
        parts = [f"<CommonPrefixes><Prefix>{quote(folder)}</Prefix></CommonPrefixes>" for folder in sorted(folders)]
        parts += [f"<Contents><Key>{quote(key)}</Key><Size>{len(self.files[key])}</Size></Contents>" for key in files]
        return f"<ListBucketResult><EncodingType>url</EncodingType>{''.join(parts)}</ListBucketResult>".encode()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[DeclaredSource]:
    """Serve the files as a bucket `lake`, and declare its folder `sales` for the persona sales."""

    class Own(Handler):
        pass

    Own.files = files
    with http_servers.serving(Own) as url:
        yield DeclaredSource.objects.create(name="lake", declaration=DECLARATION.format(endpoint=url))
