"""Signed requests to endpoints: which URLs are allowed, and what came of a request.

Hosts must have public addresses, unless WEBHOOK_PRIVATE_HOSTS names them. Redirects are not followed. The content of
a response is not read, so nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext, gettext_noop

from foundation.operations.errors import Invalid
from memory_project.notifications.webhooks.pause_reasons import NO_RESPONSE, STATUS

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 15.0  # for the whole request, however slowly the response arrives
HOST = re.compile(r"[a-z0-9._:-]+")
ALLOWED = gettext_noop("an https URL of a public host, without credentials and fragment")
NOT_PUBLIC = "the host has no public address; an operator can allow it with WEBHOOK_PRIVATE_HOSTS"


@dataclass(frozen=True)
class EventRequest:
    headers: dict[str, str]
    body: str


@dataclass(frozen=True)
class EndpointAnswer:
    status_code: int | None  # None if there was no response
    error: str = ""  # empty if the request succeeded


def is_private_host(host: str) -> bool:
    return host.lower() in settings.WEBHOOK_PRIVATE_HOSTS


def check_url(text: str) -> str:
    """Return the URL as it is requested. Raises Invalid if its form is not allowed."""
    import httpx  # noqa: PLC0415 - takes a tenth of a second, which other processes save

    from foundation.outbound.public_http import is_public  # noqa: PLC0415 - needs httpx

    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, UnicodeError):
        raise Invalid(gettext("is not a URL"), field="url", allowed=gettext(ALLOWED)) from None
    if not url.host or url.scheme not in ("https", "http"):
        raise Invalid(
            gettext("%(text)r is not a web address") % {"text": text[:80]}, field="url", allowed=gettext(ALLOWED)
        )
    if url.userinfo or url.fragment:
        raise Invalid(gettext("contains credentials or a fragment"), field="url", allowed=gettext(ALLOWED))
    if not HOST.fullmatch(url.raw_host.decode()) or url.port == 0 or (url.port or 0) > 65_535:
        raise Invalid(
            gettext("%(text)r has no valid host or port") % {"text": text[:80]}, field="url", allowed=gettext(ALLOWED)
        )
    if is_private_host(url.host):
        return str(url)
    if url.scheme != "https":
        raise Invalid(gettext("is not encrypted"), field="url", allowed=gettext(ALLOWED))
    try:
        is_private = not is_public(url.host.strip("[]"))
    except ValueError:
        is_private = url.host.lower() == "localhost"  # other names are looked up when a request is sent
    if is_private:
        raise Invalid(
            gettext("%(host)r is not a public host") % {"host": url.host}, field="url", allowed=gettext(ALLOWED)
        )
    return str(url)


def post_all(url: str, requests: Sequence[EventRequest]) -> list[EndpointAnswer]:
    """Send the requests to one URL at the same time."""
    try:
        checked = check_url(url)  # the rules may have changed since the endpoint was saved
    except Invalid as error:
        return [EndpointAnswer(None, error.message)] * len(requests)
    return asyncio.run(_post_all(checked, requests))


async def _post_all(url: str, requests: Sequence[EventRequest]) -> list[EndpointAnswer]:
    import httpx  # noqa: PLC0415 - takes a tenth of a second, which other processes save

    from foundation.outbound.public_http import AsyncPublicTransport  # noqa: PLC0415 - needs httpx

    is_private = is_private_host(httpx.URL(url).host)
    transport = httpx.AsyncHTTPTransport() if is_private else AsyncPublicTransport()
    async with httpx.AsyncClient(transport=transport, timeout=TIMEOUT_S, follow_redirects=False) as client:
        return list(await asyncio.gather(*(_post(client, url, request) for request in requests)))


async def _post(client: httpx.AsyncClient, url: str, request: EventRequest) -> EndpointAnswer:
    import httpx  # noqa: PLC0415 - takes a tenth of a second, which other processes save

    from foundation.outbound.public_http import NotPublic  # noqa: PLC0415 - needs httpx

    content = request.body.encode()
    try:
        # httpx limits the time between two parts of a response only
        async with (
            asyncio.timeout(TIMEOUT_S),
            client.stream("POST", url, content=content, headers=request.headers) as response,
        ):
            status = response.status_code
        return EndpointAnswer(status, "" if response.is_success else STATUS % {"status": status})
    except NotPublic:
        return EndpointAnswer(
            None, NOT_PUBLIC
        )  # without the address: the owner need not know the names of this network
    except (TimeoutError, httpx.TimeoutException):
        return EndpointAnswer(None, NO_RESPONSE % {"seconds": f"{TIMEOUT_S:g}"})
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return EndpointAnswer(None, f"{type(error).__name__}: {error}"[:300])
