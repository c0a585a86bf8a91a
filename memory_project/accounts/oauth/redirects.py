"""Redirect addresses of OAuth clients: https, http on the loopback interface, and schemes that the operator allows."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.conf import settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ALLOWED = "https, http on the loopback interface, or one of OAUTH_REDIRECT_SCHEMES"
ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d+)?", re.IGNORECASE)


def is_safe(address: str) -> bool:
    try:
        parts = urlsplit(address)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return False
    if "#" in address or parts.username is not None or parts.password is not None:
        return False
    if parts.scheme == "http":
        return host in LOOPBACK
    return bool(host) if parts.scheme == "https" else parts.scheme in settings.OAUTH_REDIRECT_SCHEMES


def source_of(address: str) -> str:
    """Return the address as a source of a Content-Security-Policy: its origin, or its scheme if it has none."""
    parts = urlsplit(address)
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin if ORIGIN.fullmatch(origin) else f"{parts.scheme}:"
