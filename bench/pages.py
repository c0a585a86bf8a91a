"""Measure every page and fragment of portal and admin: queries, server time, and size of the response.

    python bench/pages.py [--large] [--rows 200000] [--skewed] [--keep] [--only TEXT] [--all] [--show] [--rounds 5]

Fills its own database (page_data.py, page_features.py) with 200,000 memories of 500 owners, 5,000 waiting insights,
10,000 entities and the rows that come with them. Then requests, as an analyst, a curator and an admin, every address
that the pages link to, one for each route, and some with filters, searches and late pages. Requests go through all
middleware. Prints the number of queries, the median of the server time, that of the CPU time of this process and its
database connection, the slowest query, all in ms, and the size of the response. Of each role, the ten pages that come
nearest to the limits or exceed them are printed, and a summary; with --all, all pages.

--large keeps the database for the next run with --large, so that only the first run takes the time to fill it.
--skewed distributes the rows unevenly: one owner has 150,000 memories, a tag is on 100,000, there are 5,000 tags,
nearly everybody holds the first persona, and the curator holds 200. --keep leaves the database for the next run with
--keep. --only measures addresses that contain one of its texts, and --show prints their queries.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import scratch
from django.core.management import call_command
from page_data import fill
from page_rows import ADMIN, CURATOR, Size

MAX_QUERIES, MAX_MS = 12, 300
WORST = 10  # pages that are printed of each role, unless all are wanted
MAX_WIDTH = 52  # maximum number of characters of an address in the table
ENTITY = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.table_0,PROD)"  # the one with the most memories
# The cursor of a late page of a list by time
LATE = f"{quote((datetime.now(UTC) - timedelta(days=25)).isoformat())}~00000000-0000-4000-8000-000000000000"
# Addresses with parameters that the links of the pages don't have. The first character of a fragment's address is "~".
PORTAL = (
    "/?q=refunds of stock in table_3", "/?q=revenue", "/?tag=tag0", "/?tag=tag0&category=correction",
    "/?category=correction", f"/?entity={quote(ENTITY)}", "/?sort=oldest", "/?status=stale", "/?status=archived",
    "/?owner=me", "/?kind=conversation", "/?q=revenue&as_of=2026-06-01",
    "/?after=2025-12-31T00:00:00+00:00~00000000-0000-4000-8000-000000000000", "~/?q=revenue", "~/?tag=tag0",
    "/find/?q=", "/find/?q=re", "/find/?q=revenue", "/find/?q=table_17", "/find/?q=person",
    "/pick/entity/?q=table", "/pick/entity/?q=table_17", f"/pick/column/?q=col&about={quote(ENTITY)}",
    "/pick/person/?q=person", "/pick/tag/?q=tag1", f"/knowledge/entity/?urn={quote(ENTITY)}", "/knowledge/?q=table_17",
    "/knowledge/?q=revenue", "/knowledge/?type=dataset", "/graph/?q=table_17", "/activity/?outcome=error",
    "/stale/?whose=all", "/news/?page=2", "/insights/?state=applied", "/?about=unsettled",
    f"/contradictions/?after={LATE}", f"/insights/suggestions/?after={LATE}", f"/batches/?after={LATE}",
    f"/citations/?after={LATE}", "/citations/?changed=1", f"/activity/?after={LATE}", "/conversations/?from=200",
    f"/knowledge/entity/?urn={quote(ENTITY)}&tab=memories", f"/knowledge/entity/?urn={quote(ENTITY)}&tab=lineage",
)  # fmt: skip
REVIEW = (
    *(f"/review/all/?state={state}" for state in ("pending", "questions", "approved", "applied", "rejected")),
    "/review/all/?sort=author", "/review/all/?sort=confidence", "/review/all/?q=revenue", "/review/all/?page=60",
    f"/review/all/?entity={quote(ENTITY)}", "/review/all/?age=30%2B", "/changesets/?state=applied",
    f"/changesets/?entity={quote(ENTITY)}", "/changesets/?state=waiting", f"/changesets/?after={LATE}",
    f"/stale/?whose=all&after={LATE}", f"/corrections/?after={LATE}", "/review/all/?page=400",
    "/review/all/?state=applied&page=400", "/review/all/?age=overdue", "/review/all/?sort=due",
    "/review/all/?assignee=nobody", "/debt/?q=table_1", "/debt/?reason=stale", "/debt/?persona=persona1",
    "/debt/?domain=urn:li:domain:3", "/debt/?after=1.0~", "/debt/interview/?person=owner7@bench.example",
    "/week/review/",
)  # fmt: skip
LIST_PARAMETERS = ("?q=revenue", "?p=20", "?p=400", "?_facets=True")  # of every list of the admin


@dataclass(frozen=True)
class Measurement:
    role: str
    address: str
    status: int
    queries: int
    median: float  # ms, as all times here
    cpu: float
    slowest_query: float
    size: int
    statements: list[tuple[float, str]]

    @property
    def excess(self) -> float:
        """By what factor the page exceeds a limit; at most 1 if it does not."""
        return max(self.cpu / MAX_MS, self.queries / MAX_QUERIES)


class StatementRecorder:
    """Record each SQL statement of a request with its duration in ms."""

    def __init__(self) -> None:
        self.statements: list[tuple[float, str]] = []

    def __call__(self, run: Any, sql: str, *rest: Any) -> Any:
        started = time.perf_counter()
        try:
            return run(sql, *rest)
        finally:
            self.statements.append((1000 * (time.perf_counter() - started), sql))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--only", nargs="*", default=[], metavar="TEXT")
    parser.add_argument("--role", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    scratch.setup()
    from django.db import connection  # noqa: PLC0415 - after setup()

    if options.large:
        options.keep = True
        connection.settings_dict["TEST"]["NAME"] = "bench_large"
    if options.skewed:
        connection.settings_dict["TEST"]["NAME"] = "bench_skewed"
    call_command("collectstatic", "--no-input", verbosity=0)
    with scratch.database(keep=options.keep) as is_new:
        if is_new:
            started = time.perf_counter()
            fill(Size(options.rows, options.skewed))
            with connection.cursor() as cursor:
                cursor.execute("VACUUM ANALYZE")
            print(f"filled with {options.rows:,} memories in {time.perf_counter() - started:.0f} s\n")
        for role, email in (("analyst", "owner7@bench.example"), ("curator", CURATOR), ("admin", ADMIN)):
            if not role.startswith(options.role):
                continue
            measured = sorted(measure_role(role, email, options.only, options.rounds), key=lambda row: -row.excess)
            report(measured if options.all else measured[:WORST], options.show)
            print(summary(role, measured))


def measure_role(role: str, email: str, only: list[str], rounds: int) -> Iterator[Measurement]:
    from django.test import Client  # noqa: PLC0415 - after setup()

    from memory_project.models import User  # noqa: PLC0415 - after setup()

    client = Client(HTTP_HOST="localhost", raise_request_exception=False)
    client.force_login(User.objects.get(email=email))
    for address in addresses(client, role, only):
        if not only or any(text in address for text in only):
            yield measure(client, role, address, rounds)
    print(f"measured as {role}", file=sys.stderr)


def addresses(client: Any, role: str, only: list[str]) -> list[str]:
    from tests.page_crawl import crawl  # noqa: PLC0415 - after setup()

    fixed = [*PORTAL, *(REVIEW if role != "analyst" else ())]
    if only and all(any(text in address for address in fixed) for text in only):
        return fixed
    found = crawl(client)
    lists = [page.address for route, page in found.items() if route.endswith("_changelist")]
    return [
        *(page.address for page in found.values()),
        *fixed,
        *(address.partition("?")[0] + part for address in lists for part in LIST_PARAMETERS),
    ]


def measure(client: Any, role: str, address: str, rounds: int) -> Measurement:
    from django.db import connection  # noqa: PLC0415 - after setup()

    headers = {"HX-Request": "true"} if address.startswith("~") else {}
    address = address.removeprefix("~")
    client.get(address, headers=headers)  # warms up templates and query plans
    recorder = StatementRecorder()
    cpu, started = cpu_time(), time.perf_counter()
    with connection.execute_wrapper(recorder):
        response = client.get(address, headers=headers)
    times, cpu_times = [time.perf_counter() - started], [cpu_time() - cpu]
    while len(times) < rounds and sum(times) < 1:
        cpu, started = cpu_time(), time.perf_counter()
        client.get(address, headers=headers)
        times.append(time.perf_counter() - started)
        cpu_times.append(cpu_time() - cpu)
    return Measurement(
        role=role,
        address=address + (" (fragment)" if headers else ""),
        status=response.status_code,
        queries=len(recorder.statements),
        median=1000 * statistics.median(times),
        cpu=1000 * statistics.median(cpu_times),
        slowest_query=max((took for took, _ in recorder.statements), default=0),
        size=0 if response.streaming else len(response.content),
        statements=recorder.statements,
    )


def cpu_time() -> float:
    """Return the seconds that this process and its database connection have computed.

    On a machine that is busy with other things, this says more than the time on the clock.
    """
    from django.db import connection  # noqa: PLC0415 - after setup()

    connection.ensure_connection()
    schedule = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    is_local = connection.settings_dict["HOST"].startswith("/") and schedule.exists()
    return time.process_time() + (int(schedule.read_text().split()[0]) / 1e9 if is_local else 0)


def report(measured: list[Measurement], show: bool) -> None:
    print(f"{'as':8} {'page':{MAX_WIDTH}} {'status':>6} {'queries':>7} {'median':>7} {'CPU':>7} {'query':>6} {'kB':>6}")
    for row in measured:
        address = row.address if len(row.address) <= MAX_WIDTH else f"{row.address[: MAX_WIDTH - 1]}…"
        mark = "  <—" if row.excess > 1 or row.status >= 400 else ""
        print(
            f"{row.role:8} {address:{MAX_WIDTH}} {row.status:6} {row.queries:7} {row.median:7.0f} {row.cpu:7.0f}"
            f" {row.slowest_query:6.0f} {row.size / 1000:6.0f}{mark}"
        )
        for took, sql in row.statements if show else ():
            print(f"    {took:7.1f} ms  {' '.join(sql.split())}")


def summary(role: str, measured: list[Measurement]) -> str:
    cpu = sorted(row.cpu for row in measured)
    slow = sum(row.cpu > MAX_MS for row in measured)
    many = sum(row.queries > MAX_QUERIES for row in measured)
    return (
        f"{role}: {len(measured)} pages, CPU p50 {statistics.median(cpu):.0f}, p95 {cpu[int(len(cpu) * 0.95) - 1]:.0f},"
        f" max {cpu[-1]:.0f} ms; {slow} above {MAX_MS} ms, {many} above {MAX_QUERIES} queries\n"
    )


if __name__ == "__main__":
    main()
