"""Language, time zone and locale of the user's pages.

The language and the time zone are those chosen in the account, otherwise the browser's, otherwise LANGUAGE_CODE and
TIME_ZONE. Dates and numbers follow the browser's locale if it belongs to that language. Addresses that programs call
answer in LANGUAGE_CODE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, date, datetime
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel import Locale, UnknownLocaleError, dates, numbers
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation.trans_real import parse_accept_lang_header

ZONE_COOKIE = "zone"  # the browser's time zone, set by static/js/palette.js
FOR_PROGRAMS = ("/api/", "/mcp", "/.well-known/", "/health")
DEFAULT = Locale("en", "GB")
# (count, text): `count` of this unit make one of the next unit; after months come years
STEPS = (
    (60, gettext_lazy("%(count)s min")),
    (24, gettext_lazy("%(count)s h")),
    (7, gettext_lazy("%(count)s d")),
    (5, gettext_lazy("%(count)s w")),
    (12, gettext_lazy("%(count)s mo")),
)

_locale: ContextVar[Locale] = ContextVar("locale", default=DEFAULT)


def localize(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that activates the user's language, time zone and locale for one request."""

    def middleware(request: HttpRequest) -> HttpResponse:
        own_zone = getattr(request.user, "time_zone", "") if request.user.is_authenticated else ""
        zone = own_zone if zone_of(own_zone) else unquote(request.COOKIES.get(ZONE_COOKIE, ""))
        with using(language_of(request), zone, request.headers.get("accept-language", "")):
            response = get_response(request)
        patch_vary_headers(response, ["Accept-Language"])
        return response

    return middleware


@contextmanager
def using(language: str, zone_name: str, accept_language: str = "") -> Iterator[None]:
    """Activate a language, a time zone and a locale for a block. An unknown time zone means TIME_ZONE."""
    token = _locale.set(locale_of(language, accept_language))
    try:
        with timezone.override(zone_of(zone_name)), translation.override(language):
            yield
    finally:
        _locale.reset(token)


def language_of(request: HttpRequest) -> str:
    """Return the code of the language of the pages: one of LANGUAGES."""
    if request.path.startswith(FOR_PROGRAMS):
        return settings.LANGUAGE_CODE
    own = getattr(request.user, "language", "") if request.user.is_authenticated else ""
    return own or translation.get_language_from_request(request)


def zone_of(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name and len(name) <= 64 else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=256)
def locale_of(language: str, accept_language: str) -> Locale:
    """Return the first locale of an Accept-Language header that belongs to `language`, otherwise the language's own."""
    for name, _ in parse_accept_lang_header(accept_language[:500]):
        try:
            locale = Locale.parse(name, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
        if locale.language == language:
            return locale
    return DEFAULT if language == DEFAULT.language else Locale(language)


def day(at: datetime | date) -> str:
    local = timezone.localtime(at) if isinstance(at, datetime) else at
    return dates.format_date(local, "medium", _locale.get())


def short_day(at: date) -> str:
    """Format a day without the year, for the labels of charts."""
    return dates.format_skeleton("MMMd", at, locale=_locale.get())


def minute(at: datetime) -> str:
    """Format date and time, followed by the name of the time zone."""
    local = timezone.localtime(at)
    text = dates.format_datetime(local, "medium", locale=_locale.get())
    return f"{text} {local.tzname()}"


def age(at: datetime) -> str:
    """Format the time elapsed since `at` as one number and unit: `5 min`, `3 d`, `2 mo`."""
    amount = max((datetime.now(UTC) - at).total_seconds() / 60, 0)
    for size, text in STEPS:
        if amount < size:
            return text % {"count": int(amount)}
        amount /= size
    return gettext("%(count)s y") % {"count": int(amount)}


def number(value: float) -> str:
    return numbers.format_decimal(value, locale=_locale.get())


def percent(share: float) -> str:
    return numbers.format_percent(share, locale=_locale.get())
