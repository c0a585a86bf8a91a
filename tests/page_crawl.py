"""The pages and fragments that a person can open: the addresses that the pages themselves link to, one for each route."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit

from django.http import Http404
from django.test import Client
from django.urls import resolve

LINK = re.compile(r'\b(?:href|hx-get|data-[a-z-]+)="((?:/|\?)[^"#]*)"')
START = ("/", "/admin/", "/admin/tables/", "/review/all/", "/stale/?whose=all", "/changesets/", "/conversations/", "/graph/")
# Addresses that the crawl does not open: they end the session, or are for programs.
NOT_OPENED = ("sign-out", "logout", "api-", "oauth", "static", "favicon")


def crawl(client: Client, start: Sequence[str] = START) -> dict[str, str]:
    """Return route → address, for each route that the links reach from `start` and that answers with a page."""
    found: dict[str, str] = {}
    refused: set[str] = set()
    waiting = list(start)
    while waiting:
        address = waiting.pop(0)
        route = route_of(address)
        if not route or route in found or route in refused or any(word in route for word in NOT_OPENED):
            continue
        response = client.get(address)
        if response.status_code != 200:
            # the address of a row that this person may not open; another row's may work
            refused |= {route} if response.status_code in (403, 405) else set()
            continue
        found[route] = address
        if not response.streaming and response.headers.get("Content-Type", "").startswith("text/html"):
            links = LINK.findall(response.content.decode())
            waiting += [urljoin(address, html.unescape(link)) for link in dict.fromkeys(links)]
    return found


def route_of(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).view_name
    except Http404:
        return ""
