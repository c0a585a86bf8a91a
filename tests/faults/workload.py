"""People who store and read memories without pause, and note what they got."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from uuid import UUID

import httpx2

from tests.faults.installation import PEOPLE, Installation

PAUSE_S = 0.1  # between two calls of one person
READY_AGAIN_S = 180  # maximum time to wait for the next acknowledged write after a fault


@dataclass
class Workload:
    place: Installation
    acknowledged: list[tuple[float, UUID]] = field(default_factory=list)  # time, id
    seen: Counter[str] = field(default_factory=Counter)  # what failed calls answered
    over: threading.Event = field(default_factory=threading.Event)
    started: float = field(default_factory=time.monotonic)

    def write(self, email: str) -> None:
        number = 0
        with self.place.client(email) as client:
            while not self.over.is_set():
                number += 1
                text = f"{email} wrote sentence {number} of store {self.started:.3f} here."
                answer = self._call(lambda text=text: client.post("/api/v1/memories/", json={"content": text}))
                if answer is not None and answer.status_code in (200, 201):
                    self.acknowledged.append((time.monotonic(), UUID(answer.json()["memory"]["id"])))
                self.over.wait(PAUSE_S)

    def read(self, email: str) -> None:
        with self.place.client(email) as client:
            while not self.over.is_set():
                self._call(lambda: client.get("/api/v1/memories/", params={"limit": 5}))
                self.over.wait(PAUSE_S)

    def _call(self, request: Any) -> httpx2.Response | None:
        try:
            answer: httpx2.Response = request()
        except httpx2.HTTPError as error:
            self.seen[type(error).__name__] += 1
            return None
        if answer.status_code >= 300:
            self.seen[f"{answer.status_code}: {_detail(answer)}"] += 1
        return answer

    def wait_until_written(self, since: float) -> None:
        """Wait until a write after `since` is acknowledged."""
        deadline = time.monotonic() + READY_AGAIN_S
        while not any(moment > since for moment, _ in self.acknowledged[-5:]):
            if time.monotonic() > deadline:
                raise AssertionError(f"no write was acknowledged within {READY_AGAIN_S} s: {dict(self.seen)}")
            time.sleep(0.1)

    def longest_silence_s(self) -> float:
        """Return the longest time between two acknowledged writes."""
        moments = [moment for moment, _ in self.acknowledged]
        return max((later - earlier for earlier, later in pairwise(moments)), default=0.0)

    def lost(self) -> int:
        ids = [str(pk) for _, pk in self.acknowledged]
        rows = self.place.sql("SELECT count(*) FROM memory_records WHERE id = ANY(%(ids)s::uuid[])", {"ids": ids})
        return len(set(ids)) - int(rows[0][0])


@contextmanager
def working(place: Installation) -> Iterator[Workload]:
    """Let two people write and one read for the duration of the block."""
    work = Workload(place)
    threads = [threading.Thread(target=work.write, args=[email], daemon=True) for email in PEOPLE[:2]]
    threads.append(threading.Thread(target=work.read, args=[PEOPLE[2]], daemon=True))
    for thread in threads:
        thread.start()
    try:
        work.wait_until_written(0.0)
        yield work
    finally:
        work.over.set()
        for thread in threads:
            thread.join(60)


def _detail(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["detail"])[:160]
    except (ValueError, KeyError, TypeError):
        return answer.text[:80].replace("\n", " ")
