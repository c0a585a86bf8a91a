"""Texts of a form that could not be carried out, to be shown on the error page, so that people can copy them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParserError

MAX_TEXTS = 20
MAX_CHARS = 20_000  # of one text
SECRET = re.compile(r"pass(word|wd|phrase)?|secret|token|api_?key|credential|otp|recovery", re.IGNORECASE)
PAGES = ("next", "back_to", "page")  # fields with addresses
# A value of printable ASCII without spaces is an id, a choice or an address, and no text that took effort to write.
NO_TEXT = re.compile(r"[!-~]*")


def typed_texts(request: HttpRequest) -> list[str]:
    """Return the texts that were sent by a form of this site, without those of fields for secrets.

    Another site can make the browser send a form, and its texts must not be shown as ours.
    """
    if request.method != "POST" or not is_from_here(request):
        return []
    try:
        values = [(name, value) for name, values in request.POST.lists() for value in values]
    except (SuspiciousOperation, MultiPartParserError, OSError):  # too many fields, or the request broke off
        return []
    texts = [
        value.strip()[:MAX_CHARS]
        for name, value in values
        if name not in PAGES and not SECRET.search(name) and not NO_TEXT.fullmatch(value.strip())
    ]
    return texts[:MAX_TEXTS]


def is_from_here(request: HttpRequest) -> bool:
    sender = request.headers.get("Origin") or request.headers.get("Referer") or ""
    return bool(sender) and urlsplit(sender).netloc == request.META.get("HTTP_HOST", request.META.get("SERVER_NAME"))


def page_of_form(request: HttpRequest) -> str:
    """Return path and query of the page of this site that sent the request, or ""."""
    parts = urlsplit(request.headers.get("Referer", ""))
    if not is_from_here(request) or not parts.path.startswith("/") or parts.path.startswith("//"):
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
