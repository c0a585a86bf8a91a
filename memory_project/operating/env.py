"""Functions that read typed environment variables.

An invalid value raises ImproperlyConfigured with a message that names the variable.

A secret can also be in a file, whose path is in the variable NAME_FILE, as container platforms mount secrets.
"""

from __future__ import annotations

import json
import os
from ipaddress import ip_address, ip_network
from math import isfinite
from pathlib import Path
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ImproperlyConfigured

TRUE = {"1", "true", "yes", "on"}
FALSE = {"0", "false", "no", "off"}

Number = TypeVar("Number", int, float)

SECRET_NAMES = frozenset(
    {
        "SECRET_KEY",
        "SECRET_KEY_FALLBACKS",
        "DATABASE_URL",
        "DATABASE_OWNER_URL",
        "DATABASE_REPLICA_URL",
        "CACHE_URL",
    }
)
SECRET_ENDINGS = ("_PASSWORD", "_TOKEN", "_SECRET", "_API_KEY")
MAX_SECRET_BYTES = 64 * 1024


def is_secret(name: str) -> bool:
    """Return whether a variable may contain a password, a token or a key, and so may be given as a file."""
    return name in SECRET_NAMES or name.endswith(SECRET_ENDINGS)


def text(name: str, default: str = "") -> str:
    value = os.environ.get(name, "").strip()
    if is_secret(name) and (file := os.environ.get(f"{name}_FILE", "").strip()):
        if value:
            raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; allowed: one of them")
        return _content(f"{name}_FILE", file)
    return value or default


def _content(name: str, file: str) -> str:
    """Return what is in the file of a secret, without the line break that editors and `echo` add at its end."""
    try:
        with open(file, "rb") as handle:
            content = handle.read(MAX_SECRET_BYTES + 1)
        secret = content.decode()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}={file!r} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ImproperlyConfigured(f"{name}={file!r} is not a text in UTF-8") from None
    if len(content) > MAX_SECRET_BYTES:
        raise ImproperlyConfigured(f"{name}={file!r} is too large; allowed: at most {MAX_SECRET_BYTES:,} bytes")
    if not secret.strip():
        raise ImproperlyConfigured(f"{name}={file!r} is empty; allowed: a file with the secret, or unset {name}")
    return secret.rstrip("\r\n")


def boolean(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in TRUE | FALSE:
        return value in TRUE
    raise ImproperlyConfigured(f"{name}={value!r} is not a boolean; allowed: true, false, 1, 0, yes, no, on, off")


def number(name: str, default: Number, low: Number, high: Number) -> Number:
    raw = os.environ.get(name, "").strip()
    if not raw:
        return default
    try:
        value = type(default)(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a number; allowed: {low} to {high}") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name}={raw} is out of range; allowed: {low} to {high}")
    return value


def choice(name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r} is unknown; allowed: {', '.join(allowed)}")
    return value


def list_of_strings(name: str, default: str = "", allowed: tuple[str, ...] = ()) -> list[str]:
    values = [part.strip() for part in text(name, default).split(",") if part.strip()]
    if allowed and not values and text(name, default):
        raise ImproperlyConfigured(f"{name} names none; allowed: {', '.join(allowed)}")
    if allowed and (unknown := [value for value in values if value not in allowed]):
        raise ImproperlyConfigured(f"{name}: {unknown[0]!r} is unknown; allowed: {', '.join(allowed)}")
    return values


def networks(name: str) -> list[str]:
    """Read addresses and networks, such as `10.0.0.5,10.1.0.0/16`, in their usual spelling."""
    values = []
    for entry in list_of_strings(name):
        try:
            values.append(str(ip_network(entry)) if "/" in entry else str(ip_address(entry)))
        except ValueError:
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is not an address or a network; allowed: values like 10.0.0.5 or 10.1.0.0/16"
            ) from None
        if values[-1].endswith("/0"):
            raise ImproperlyConfigured(f"{name}: {entry!r} names every address; allowed: the addresses of your proxies")
    return values


def origins(name: str) -> list[str]:
    """Read origins of web pages, such as `https://inspector.example.org`, and return them as browsers send them."""
    values = []
    for entry in list_of_strings(name):
        try:
            parts = urlsplit(entry.rstrip("/"))
            port = "" if parts.port in (None, {"http": 80, "https": 443}.get(parts.scheme)) else f":{parts.port}"
        except ValueError:
            parts = urlsplit("")
            port = ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        is_bare = not (parts.path or parts.query or parts.fragment or parts.username)
        if parts.scheme not in ("http", "https") or not host or not is_bare or "*" in host:
            raise ImproperlyConfigured(
                f"{name}: {entry!r} is not an origin; allowed: values like https://inspector.example.org"
            )
        values.append(f"{parts.scheme}://{host}{port}")
    return values


def weights_of(name: str, defaults: dict[str, float]) -> dict[str, float]:
    """Read a JSON object of numbers that replace or extend the defaults."""
    try:
        changes = json.loads(text(name, "{}"))
        return defaults | {str(key): _finite(value) for key, value in changes.items()}
    except (ValueError, TypeError, AttributeError):
        raise ImproperlyConfigured(f'{name} is not a JSON object of numbers; allowed: values like {{"*": 1}}') from None


def _finite(value: object) -> float:
    number = float(value)  # type: ignore[arg-type]  # raises TypeError for other types
    if not isfinite(number):
        raise ValueError("JSON has no NaN and no infinity")
    return number


def pairs(name: str, default: str) -> dict[str, str]:
    entries = [entry.split(":") for entry in list_of_strings(name, default)]
    if wrong := [":".join(entry) for entry in entries if len(entry) != 2 or not all(map(str.strip, entry))]:
        raise ImproperlyConfigured(f"{name}: {wrong[0]!r} is not a pair; allowed: pairs like contains:part_of")
    return {first.strip(): second.strip() for first, second in entries}


def url(name: str, default: str) -> SplitResult:
    """Read an http or https URL. If there is neither a value nor a default, its parts are empty."""
    raw = text(name, default).rstrip("/")
    if not raw:
        return urlsplit("")
    try:
        parts = urlsplit(raw)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a URL; allowed: http:// or https:// with a host")
    return parts


def time_zone(name: str, default: str) -> str:
    value = text(name, default)
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name}={value!r} is unknown; allowed: names like Europe/Zurich or UTC") from None
    return value


def path(name: str, default: Path) -> Path:
    return Path(text(name, str(default))).expanduser().resolve()
