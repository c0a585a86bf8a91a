"""Reading requests of the S3 protocol, with limits on their time and on the size of what they return.

Messages of the server are not passed on, because they quote requests with their signatures. Its error codes are.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote_plus, urlsplit
from xml.etree import ElementTree

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt
from tenacity.wait import wait_random_exponential

from analysis.sources.interface import UpstreamFailed
from analysis.sources.rest import RETRIED_STATUSES, Transient
from analysis.storage.declaration import ObjectStore
from analysis.storage.signing import Credentials, signed
from foundation.operations.errors import NotFound
from foundation.operations.paging import invalid_cursor
from foundation.operations.timestamps import parse_timestamp
from foundation.outbound import bounded_http, public_http

log = logging.getLogger(__name__)

ATTEMPTS = 3
MAX_PAUSE_S = 2.0
LISTING_BYTES = 5_000_000  # maximum size of a listing; 1,000 keys of 1,024 bytes, percent-encoded, have 3,000,000
ERROR_BYTES = 20_000
MAX_HEADER = 200  # characters of a value that the server returns with an object
CODE = re.compile(r"[A-Za-z]{1,60}")
REGION = re.compile(r"[a-z0-9-]{1,40}")
UNREADABLE = "the store {!r} returned no valid listing"
# Codes of S3 whose reason isn't plain from their name.
REMEDIES = {
    "AccessDenied": "its credentials may not do this",
    "Forbidden": "its credentials may not do this",
    "NoSuchBucket": "its bucket doesn't exist",
    "SignatureDoesNotMatch": "its secret key is wrong",
    "InvalidAccessKeyId": "its access key is unknown",
    "ExpiredToken": "its session token has expired",
    "RequestTimeTooSkewed": "the clocks of the two servers differ",
}


@dataclass(frozen=True)
class ListedObject:
    key: str  # the whole key
    size: int
    modified: datetime | None


@dataclass(frozen=True)
class ObjectListing:
    """A page of a listing. `folders` are prefixes that end with a slash. `token` gets the next page."""

    objects: Sequence[ListedObject]
    folders: Sequence[str]
    token: str


@dataclass(frozen=True)
class ObjectHead:
    size: int
    modified: datetime | None
    etag: str
    content_type: str
    content_encoding: str
    storage_class: str


@dataclass(frozen=True)
class StoreAnswer:
    status: int
    headers: httpx.Headers
    body: bytes  # not decompressed


class Bucket:
    """The bucket of a store, for the requests of one call. They share the store's time limit."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._deadline = time.monotonic() + store.timeout_s
        self._credentials = _credentials(store)
        base = urlsplit(store.endpoint or f"https://s3.{store.region}.amazonaws.com")
        self._path = f"/{store.bucket}" if store.is_path_style else ""
        self._base = f"{base.scheme}://{base.netloc if store.is_path_style else f'{store.bucket}.{base.netloc}'}"
        transport = public_http.PublicTransport() if store.must_be_public(base.hostname or "") else None
        self._client = httpx.Client(
            transport=transport,
            follow_redirects=False,  # another host would get the signature
            headers={"accept-encoding": "identity"},
        )

    def close(self) -> None:
        self._client.close()

    def list(self, prefix: str, *, limit: int, token: str = "", is_recursive: bool = False) -> ObjectListing:
        """Return at most `limit` objects and folders whose keys begin with the prefix, in the order of their keys."""
        parameters = {"list-type": "2", "prefix": prefix, "max-keys": str(limit), "encoding-type": "url"}
        parameters |= {} if is_recursive else {"delimiter": "/"}
        parameters |= {"continuation-token": token} if token else {}
        try:
            body = self._send("GET", "", parameters, most_bytes=LISTING_BYTES).body
            listing = _listing(body, prefix)
        except (ElementTree.ParseError, ValueError):
            raise UpstreamFailed(UNREADABLE.format(self._store.name)) from None
        except UpstreamFailed as failed:
            if token and failed.status_code == 400:
                raise invalid_cursor("cursor") from None
            raise
        if len(listing.objects) + len(listing.folders) > limit:
            raise UpstreamFailed(UNREADABLE.format(self._store.name))
        return listing

    def head(self, key: str) -> ObjectHead:
        """Return the size and properties of an object. Raises NotFound if there is none with this key."""
        headers = self._send("HEAD", key).headers
        size = headers.get("content-length", "")
        if not size.isdecimal():
            raise UpstreamFailed(f"the store {self._store.name!r} doesn't tell the size of the object")
        return ObjectHead(
            int(size),
            _http_date(headers.get("last-modified", "")),
            headers.get("etag", "").strip('"')[:MAX_HEADER],
            headers.get("content-type", "")[:MAX_HEADER],
            headers.get("content-encoding", "")[:MAX_HEADER],
            headers.get("x-amz-storage-class", "STANDARD")[:MAX_HEADER],
        )

    def read(self, key: str, start: int, length: int, etag: str = "") -> bytes:
        """Return bytes of an object, which must have `start + length` bytes at least.

        Raises UpstreamFailed if the object no longer has this `etag`, since its parts would not fit together.
        """
        if not length:
            return b""
        headers = {"range": f"bytes={start}-{start + length - 1}"}
        headers |= {"if-match": f'"{etag}"'} if etag else {}
        answer = self._send("GET", key, headers=headers, most_bytes=length)
        is_part = answer.status == 206 or (answer.status == 200 and start == 0)
        if not is_part or len(answer.body) != length:
            raise UpstreamFailed(f"the store {self._store.name!r} didn't return the requested part of the object")
        return answer.body

    @property
    def remaining_s(self) -> float:
        return self._deadline - time.monotonic()

    @property
    def overtime(self) -> str:
        """Return the message of the error at the time limit."""
        name = self._store.name
        timeout_s = self._store.timeout_s
        return f"the store {name!r} did not answer within {timeout_s:g} s (timeout_s of the store): try again"

    def _send(
        self,
        method: str,
        key: str,
        parameters: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        most_bytes: int = ERROR_BYTES,
    ) -> StoreAnswer:
        path = self._path + "/" + quote(key, safe="/~")
        query = "&".join(f"{quote(k, safe='~')}={quote(v, safe='~')}" for k, v in sorted((parameters or {}).items()))
        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.25, max=MAX_PAUSE_S),
            retry=retry_if_exception_type(Transient),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, query, dict(headers or {}), most_bytes)
        except Transient as last:
            raise last.failed from None

    def _once(self, method: str, path: str, query: str, headers: dict[str, str], most_bytes: int) -> StoreAnswer:
        url = httpx.URL(f"{self._base}{path}{f'?{query}' if query else ''}")
        if self._credentials:
            host = url.netloc.decode()
            now = datetime.now(UTC)
            headers |= signed(
                method, host, path, query, credentials=self._credentials, region=self._store.region, now=now
            )
        try:
            timeout = max(self.remaining_s, 0.01)
            with self._client.stream(method, url, headers=headers, timeout=timeout) as stream:
                most = most_bytes if stream.is_success else ERROR_BYTES
                body = bounded_http.read(stream, most, self._deadline, decompress=False)
        except bounded_http.AnswerTooLarge:
            raise UpstreamFailed(f"the response of the store {self._store.name!r} is larger than requested") from None
        except public_http.NotPublic as error:
            log.warning("%s: %s", self._store.name, error)  # callers don't learn addresses of this network
            message = f"the host of the store {self._store.name!r} has no public address; allowed: public hosts, and "
            raise UpstreamFailed(message + "ANALYSIS_PRIVATE_HOSTS") from None
        except httpx.TimeoutException:
            raise UpstreamFailed(self.overtime) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failed = UpstreamFailed(f"the store {self._store.name!r} can't be reached ({type(error).__name__})")
            raise (Transient(failed) if self.remaining_s > MAX_PAUSE_S else failed) from None
        answer = StoreAnswer(stream.status_code, stream.headers, body)
        if stream.is_success:
            return answer
        raise self._failure(answer, is_object=path != f"{self._path}/")

    def _failure(self, answer: StoreAnswer, *, is_object: bool) -> Exception:
        code = _error_code(answer.body)
        status = answer.status
        if status == 404 and is_object and code in ("", "NoSuchKey", "NotFound"):
            return NotFound("there is no such object", field="key", allowed="a key as object_list returns it")
        name = self._store.name
        if status == 412:
            return UpstreamFailed(f"the object in the store {name!r} was replaced while it was read: try again")
        if 300 <= status < 400:
            region = answer.headers.get("x-amz-bucket-region", "")
            where = f": its bucket is in the region {region}" if REGION.fullmatch(region) else ""
            return UpstreamFailed(f"the store {name!r} redirects to another address{where}", status_code=status)
        reason = code or {403: "Forbidden"}.get(status, "")
        remedy = f": {REMEDIES[reason]}" if reason in REMEDIES else ""
        failed = UpstreamFailed(
            f"the store {name!r} refused the request ({' '.join(filter(None, [reason, str(status)]))}){remedy}",
            status_code=status,
        )
        is_transient = status in RETRIED_STATUSES and self.remaining_s > MAX_PAUSE_S
        return Transient(failed) if is_transient else failed


def _credentials(store: ObjectStore) -> Credentials | None:
    if not store.access_key_env:
        return None
    token = store.secret(store.session_token_env) if store.session_token_env else ""
    return Credentials(store.secret(store.access_key_env), store.secret(store.secret_key_env), token)


def _parsed(body: bytes) -> ElementTree.Element:
    """Parse XML without a document type, whose entities could expand without bounds. Raises ValueError."""
    text = body.decode()  # in UTF-8 only, so that no other encoding hides a document type
    if "<!" in text:
        raise ValueError("a document type")
    return ElementTree.fromstring(text)


def _error_code(body: bytes) -> str:
    try:
        code = _text(_parsed(body), "Code")
    except (ElementTree.ParseError, ValueError):
        return ""
    return code if CODE.fullmatch(code) else ""


def _listing(body: bytes, prefix: str) -> ObjectListing:
    root = _parsed(body)
    if not root.tag.endswith("ListBucketResult"):
        raise ValueError("no listing")
    decode = unquote_plus if _text(root, "EncodingType") == "url" else str
    objects = [
        ListedObject(decode(_text(entry, "Key")), int(_text(entry, "Size") or 0), _date(_text(entry, "LastModified")))
        for entry in root.iterfind("{*}Contents")
    ]
    folders = [decode(_text(entry, "Prefix")) for entry in root.iterfind("{*}CommonPrefixes")]
    is_last = _text(root, "IsTruncated") != "true"
    return ObjectListing(
        # only what was asked for, whatever the server returns
        [entry for entry in objects if entry.key.startswith(prefix)],
        [folder for folder in folders if folder.startswith(prefix)],
        "" if is_last else _text(root, "NextContinuationToken"),
    )


def _text(element: ElementTree.Element, name: str) -> str:
    return element.findtext(f"{{*}}{name}") or ""


def _date(text: str) -> datetime | None:
    return parse_timestamp(text) if text else None


def _http_date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text)
    except ValueError:
        return None
