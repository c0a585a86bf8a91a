"""The pages and fragments that a person can open: one address for each route, found by following links."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from django.db import connection
from django.http import Http404
from django.test import Client
from django.urls import resolve

LINK = re.compile(r'\b(?:href|hx-get|data-[a-z-]+)="((?:/|\?)[^"#]*)"')
START = (
    "/",
    "/admin/",
    "/admin/tables/",
    "/review/all/",
    "/inbox/?kind=stale",
    "/inbox/?kind=verification",
    "/changesets/?state=applied",  # a changeset that waits for approval has no page to roll it back
    "/conversations/",
    "/graph/",
)
# Addresses that the crawl does not open: they end the session, or are for programs.
NOT_OPENED = ("autocomplete", "sign-out", "logout", "api-", "oauth", "static", "favicon")
# Links of a route that are tried before it is given up: it may take no GET, or the person may open only some rows.
MAX_REFUSALS = 5


@dataclass(frozen=True)
class Page:
    address: str
    queries: int  # number of SQL statements that the first request has taken


def crawl(client: Client, start: Sequence[str] = START) -> dict[str, Page]:
    """Return the page of each route that the links reach from `start`, by the name of the route."""
    found: dict[str, Page] = {}
    refusals: Counter[str] = Counter()
    waiting = list(start)
    while waiting:
        address = waiting.pop(0)
        route = route_of(address)
        if not route or route in found or refusals[route] == MAX_REFUSALS or any(word in route for word in NOT_OPENED):
            continue
        counter = StatementCounter()
        with connection.execute_wrapper(counter):
            response = client.get(address)
        if response.status_code >= 500:
            raise AssertionError(f"{address} fails with {response.status_code}")
        if response.status_code != 200:
            refusals[route] += 1
        elif is_page(response):
            found[route] = Page(address, counter.count)
            links = LINK.findall(response.content.decode())
            waiting += [urljoin(address, html.unescape(link)) for link in dict.fromkeys(links)]
    return found


def is_page(response: Any) -> bool:
    is_file = response.streaming or "attachment" in response.headers.get("Content-Disposition", "")
    return not is_file and response.headers.get("Content-Type", "").startswith("text/html")


def route_of(address: str) -> str:
    try:
        return resolve(urlsplit(address).path).view_name
    except Http404:
        return ""


class StatementCounter:
    """Count the statements of a request, except for savepoints, which a test has in place of transactions."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, run: Callable[..., Any], sql: str, *rest: Any) -> Any:
        self.count += not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK TO"))
        return run(sql, *rest)
