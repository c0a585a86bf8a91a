"""Dates, times and numbers in the user's time zone and locale.

The time zone is the one chosen in the account, otherwise the browser's, otherwise TIME_ZONE. The locale is the
browser's. The words on pages are always English.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, date, datetime
from functools import lru_cache
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel import Locale, UnknownLocaleError, dates, numbers
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation.trans_real import parse_accept_lang_header

ZONE_COOKIE = "zone"  # the browser's time zone, set by static/js/palette.js
DEFAULT = Locale("en", "GB")
# (count, unit): `count` of this unit make one of the next unit; after months come years
STEPS = ((60, "min"), (24, "h"), (7, "d"), (5, "w"), (12, "mo"))

_locale: ContextVar[Locale] = ContextVar("locale", default=DEFAULT)


def localize(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware that activates the user's time zone and locale for one request."""

    def middleware(request: HttpRequest) -> HttpResponse:
        own_zone = getattr(request.user, "time_zone", "") if request.user.is_authenticated else ""
        zone = zone_of(own_zone) or zone_of(unquote(request.COOKIES.get(ZONE_COOKIE, "")))
        token = _locale.set(locale_of(request.headers.get("accept-language", "")))
        try:
            with timezone.override(zone):
                return get_response(request)
        finally:
            _locale.reset(token)

    return middleware


def zone_of(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if name and len(name) <= 64 else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


@lru_cache(maxsize=256)
def locale_of(accept_language: str) -> Locale:
    for name, _ in parse_accept_lang_header(accept_language[:500]):
        try:
            return Locale.parse(name, sep="-")
        except (UnknownLocaleError, ValueError):
            continue
    return DEFAULT


def day(at: datetime | date) -> str:
    local = timezone.localtime(at) if isinstance(at, datetime) else at
    return dates.format_date(local, "medium", _locale.get())


def minute(at: datetime) -> str:
    """Format date and time, followed by the name of the time zone."""
    local = timezone.localtime(at)
    text = dates.format_datetime(local, "medium", locale=_locale.get())
    return f"{text} {local.tzname()}"


def age(at: datetime) -> str:
    """Format the time elapsed since `at` as one number and unit: `5 min`, `3 d`, `2 mo`."""
    amount = max((datetime.now(UTC) - at).total_seconds() / 60, 0)
    for size, unit in STEPS:
        if amount < size:
            return f"{int(amount)} {unit}"
        amount /= size
    return f"{int(amount)} y"


def number(value: float) -> str:
    return numbers.format_decimal(value, locale=_locale.get())
