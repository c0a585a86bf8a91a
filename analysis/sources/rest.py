"""REST sources: HTTP requests with timeouts, a rate limit, and retries of transient failures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay
from tenacity.wait import wait_random_exponential

from analysis.sources.declaration import Filter, Resource, Source
from analysis.sources.envelopes import NoRows, PageOf, Row, unwrap
from analysis.sources.interface import LINK, UpstreamFailed
from foundation.database import connections
from foundation.operations.errors import Invalid
from foundation.outbound import bounded_http, public_http

log = logging.getLogger(__name__)

ATTEMPTS = 5
AT_ONCE = 5  # maximum number of concurrent requests of one ingest or action
MAX_BACKOFF_S = 10.0
MAX_RESPONSE_S = 120.0  # maximum number of seconds for reading one response, and for retrying one request
STATUS_TOO_LARGE = 413
MAX_RETRY_AFTER_S = 30.0
MAX_ERROR = 500  # maximum number of characters of an upstream's error message
RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}


class Transient(Exception):
    """A failure that a retry may resolve. `after_s` is the response's Retry-After in seconds, or 0 if it has none."""

    def __init__(self, failed: UpstreamFailed, after_s: float = 0.0) -> None:
        self.failed = failed
        self.after_s = after_s
        super().__init__(failed.message)


class RateLimit:
    """Limits how many requests start per second, across all threads that use this object."""

    def __init__(self, per_s: float) -> None:
        self._step = 1.0 / per_s
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next)
            self._next = at + self._step
        if at > now:
            time.sleep(at - now)


class RestUpstream:
    def __init__(self, source: Source, resource: Resource, *, as_user: str = "", name: str = "") -> None:
        self.resource = resource
        self.at_once = AT_ONCE
        self._source = source
        self._limit = RateLimit(source.rate_per_s)
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
        if token := source.token():
            headers[source.token_header] = f"{source.token_prefix}{token}"
        if as_user:
            if not as_user.isascii() or not as_user.isprintable():
                raise Invalid(
                    "contains characters that an HTTP header can't hold", field="user_id", allowed="printable ASCII"
                )
            if not source.impersonation_header:
                raise Invalid("can't be passed on: the source declares no impersonation_header", field="user_id")
            headers[source.impersonation_header] = as_user
        must_be_public = source.must_be_public(urlsplit(source.base_url).hostname or "")
        transport = public_http.PublicTransport() if must_be_public else None
        self._client = httpx.Client(
            headers=headers, timeout=source.timeout_s, follow_redirects=False, transport=transport
        )
        self._base = source.base_url.rstrip("/") + "/"

    def close(self) -> None:
        self._client.close()

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        params = [*self._filter_params(filters), *self._paging(number, per_page, cursor)]
        return self._list(self.resource.endpoint, params, per_page, cursor, number == 1)

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf:
        endpoint = f"{self.resource.endpoint}/{segment(parent_id)}/{path}"
        return self._list(endpoint, self._paging(number, per_page, cursor), per_page, cursor, number == 1)

    def read(self, record_id: str) -> Row | None:
        try:
            body = self._send("GET", self._record(record_id)).json()
        except UpstreamFailed as failed:
            if failed.status_code in (404, 410):
                return None
            raise
        except ValueError:
            raise UpstreamFailed("the upstream’s response is not JSON") from None
        if isinstance(body, dict) and isinstance(body.get("data"), dict) and self.resource.id_field not in body:
            body = body["data"]
        return body if isinstance(body, dict) else None

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int:
        body = {self.resource.wrap: dict(attributes)} if self.resource.wrap else dict(attributes)
        return self._send(self.resource.update_method, self._record(record_id), json=body).status_code

    def delete(self, record_id: str) -> int:
        return self._send("DELETE", self._record(record_id)).status_code

    def _record(self, record_id: str) -> str:
        return f"{self.resource.endpoint}/{segment(record_id)}"

    def _paging(self, number: int, per_page: int, cursor: str) -> list[tuple[str, str]]:
        size = (self.resource.per_page_param, str(per_page))
        if cursor and not cursor.startswith(LINK):
            return [(self.resource.cursor_param, cursor), size]
        return [(self.resource.page_param, str(number)), size]

    def _filter_params(self, filters: Mapping[str, Any]) -> list[tuple[str, str]]:
        params: list[tuple[str, str]] = []
        for name, value in filters.items():
            declared = self.resource.filters[name]
            params += query_params(name, declared, value)
        return params

    def _list(self, path: str, params: list[tuple[str, str]], per_page: int, cursor: str, is_first: bool) -> PageOf:
        if cursor.startswith(LINK):
            response = self._send("GET", self._resolve(path, cursor.removeprefix(LINK)))
        else:
            response = self._send("GET", path, params=params)
        if response.status_code == 204:  # no content: the page after the last
            return PageOf([])
        try:
            page = unwrap(response.json(), response.headers, self.resource.envelope, per_page, is_first=is_first)
        except NoRows as error:
            raise UpstreamFailed(f"the upstream’s response has no records: {error}") from None
        except (ValueError, AttributeError, TypeError, KeyError):
            raise UpstreamFailed("the upstream’s response doesn’t match the declared envelope") from None
        if cursor.startswith(LINK) and page.next is None and page.cursor is None:
            page = replace(page, next="")  # the page that a link led to is the last one if it has no link itself
        return page

    def _resolve(self, path: str, link: str) -> str:
        """Return the absolute URL of the next page.

        Raises UpstreamFailed if the link is not valid or leads to another host, which would receive the source's
        credential.
        """
        try:
            url = urljoin(urljoin(self._base, path), link)
            base = urlsplit(self._base)
            target = urlsplit(url)
        except ValueError:
            raise UpstreamFailed("the upstream’s link to the next page is not a valid URL") from None
        if (base.scheme, base.netloc) != (target.scheme, target.netloc):
            raise UpstreamFailed(f"the upstream’s next page is on another host ({target.netloc})")
        return url

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request, and retry it if the upstream is busy or failing. Raises UpstreamFailed.

        The pause before a retry is the response's Retry-After, up to MAX_RETRY_AFTER_S, or else random and growing. A
        write is retried only if it was refused or never sent. In other cases, it may have been carried out.
        """
        connections.close_if_pooled()  # don't hold a database connection while waiting for the upstream
        repeatable = method == "GET"
        retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS) | stop_after_delay(MAX_RESPONSE_S),
            wait=_pause,
            retry=retry_if_exception_type(Transient),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, repeatable, **options)
        except Transient as last:
            raise last.failed from None

    def _once(self, method: str, path: str, repeatable: bool, **options: Any) -> httpx.Response:
        self._limit.wait()
        try:
            with self._client.stream(method, urljoin(self._base, path), **options) as stream:
                body = bounded_http.read(stream, self._source.page_bytes, time.monotonic() + MAX_RESPONSE_S)
            response = _decompressed(stream, body)
        except bounded_http.AnswerTooLarge as error:
            message = f"{error}; if it is too large, request a smaller per_page or raise the source’s page_bytes"
            raise UpstreamFailed(message, status_code=STATUS_TOO_LARGE) from None
        except public_http.NotPublic as error:
            log.warning("%s: %s", self._source.name, error)  # callers don't learn addresses of this network
            message = "the source’s host has no public address; allowed: public hosts, and ANALYSIS_PRIVATE_HOSTS"
            raise UpstreamFailed(message) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            failed = UpstreamFailed(f"the request to the upstream failed: {type(error).__name__}")
            failed.never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            raise (Transient(failed) if repeatable or failed.never_sent else failed) from None
        if response.is_success:
            return response
        failed = UpstreamFailed(_message(response), status_code=response.status_code)
        refused = response.status_code in (425, 429, 503)
        if response.status_code in RETRIED_STATUSES and (repeatable or refused):
            raise Transient(failed, _retry_after(response))
        raise failed


def _decompressed(stream: httpx.Response, body: bytes) -> httpx.Response:
    # these two headers describe the compressed body
    headers = [(k, v) for k, v in stream.headers.items() if k not in ("content-encoding", "content-length")]
    return httpx.Response(stream.status_code, headers=headers, content=body, request=stream.request)


def segment(record_id: str) -> str:
    """Quote the id as one path segment. Raises UpstreamFailed for "", "." and "..", which would change the path."""
    if record_id in ("", ".", ".."):
        raise UpstreamFailed(f"{record_id!r} can't be part of a URL", status_code=400)
    return quote(record_id, safe="")


def query_params(name: str, declared: Filter, value: Any) -> list[tuple[str, str]]:
    param = declared.param or name
    if declared.type in ("date_range", "integer_range"):
        ends = (("from", declared.from_param or f"{name}_from"), ("to", declared.to_param or f"{name}_to"))
        return [(key, _text(value[end])) for end, key in ends if value.get(end) is not None]
    if isinstance(value, list):
        return [(param, ",".join(map(_text, value)))] if declared.joined else [(param, _text(item)) for item in value]
    return [(param, _text(value))]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    if isinstance(error, Transient) and error.after_s:
        return min(error.after_s, MAX_RETRY_AFTER_S)
    return float(wait_random_exponential(multiplier=0.25, max=MAX_BACKOFF_S)(state))


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "").strip()
    if text.replace(".", "", 1).isdecimal():
        return float(text)
    until = _http_date(text)
    # The upstream's own clock is the reference if it sends one, because it may differ from ours.
    now = _http_date(response.headers.get("date", "")) or datetime.now(UTC)
    return max((until - now).total_seconds(), 0.0) if until else 0.0


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _message(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = response.text
    if isinstance(body, dict):
        detail = body.get("errors") or body.get("error") or body.get("message") or body.get("detail") or body
        body = "; ".join(map(str, detail)) if isinstance(detail, list) else detail
    return f"{str(body)[:MAX_ERROR]} ({response.status_code})"
