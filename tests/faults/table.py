"""The faults by name, one run of a fault, and the row of the table that it gives."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import combinations

from tests.faults.installation import Installation, installation
from tests.faults.workload import Workload, working

BEFORE_S = 2.0  # seconds of undisturbed work before the fault
AFTER_S = 3.0  # and after it
BETWEEN_S = 1.0  # from the start of the first fault of a pair to that of the second
MESSAGES = 3  # most frequent messages in a row

# A fault is done to a running installation, and its function returns when the fault is over.
Action = Callable[[Installation, Workload], None]


@dataclass(frozen=True)
class Fault:
    name: str
    action: Action
    settings: dict[str, str] = field(default_factory=dict)
    silent_s: float = 60.0  # maximum time without an acknowledged write
    prepare: Callable[[Installation], None] | None = None  # before the start
    in_pairs: bool = False  # whether it may happen while another fault does


@dataclass(frozen=True)
class Row:
    fault: str
    acknowledged: int
    lost: int
    silent_s: float
    seen: list[str]

    def __str__(self) -> str:
        seen = "; ".join(self.seen) or "nothing"
        return f"| {self.fault} | {self.acknowledged} | {self.lost} | {self.silent_s:.1f} | {seen} |"


FAULTS: dict[str, Fault] = {}
HEAD = "| fault | writes acknowledged | lost | longest time without one, s | what people saw |\n|---|---|---|---|---|"


def fault(
    name: str,
    *,
    silent_s: float = 60.0,
    prepare: Callable[[Installation], None] | None = None,
    in_pairs: bool = False,
    **settings: str,
) -> Callable[[Action], Action]:
    """Register a fault. `settings` are environment variables of the installation."""

    def register(action: Action) -> Action:
        FAULTS[name] = Fault(name, action, settings, silent_s, prepare, in_pairs)
        return action

    return register


def pairs() -> list[Fault]:
    """Return a fault for each two that may happen together."""
    return [_both(*two) for two in combinations((each for each in FAULTS.values() if each.in_pairs), 2)]


def _both(one: Fault, other: Fault) -> Fault:
    """Return the fault that one fault begins shortly after the other, in either order."""

    def prepare(place: Installation) -> None:
        for each in (one, other):
            if each.prepare:
                each.prepare(place)

    def action(place: Installation, work: Workload) -> None:
        for first, second in ((one, other), (other, one)):
            with ThreadPoolExecutor(1) as executor:
                running = executor.submit(first.action, place, work)
                time.sleep(BETWEEN_S)
                second.action(place, work)
                running.result()
            work.wait_until_written(time.monotonic())

    silent_s = one.silent_s + other.silent_s
    return Fault(f"{one.name}, and {other.name}", action, one.settings | other.settings, silent_s, prepare)


def run(fault: Fault) -> Row:
    """Let the fault happen to an installation of its own.

    Raises AssertionError if an acknowledged write is missing, or if nothing works again in time.
    """
    with installation(**fault.settings) as place:
        if fault.prepare:
            fault.prepare(place)
        place.start()
        with working(place) as work:
            time.sleep(BEFORE_S)
            fault.action(place, work)
            work.wait_until_written(time.monotonic())
            time.sleep(AFTER_S)
        row = Row(fault.name, len(work.acknowledged), work.lost(), work.longest_silence_s(), _most_seen(work))
    assert row.lost == 0, f"{row.lost} acknowledged writes are missing: {row}"
    assert row.silent_s <= fault.silent_s, f"no answer for {row.silent_s:.1f} s, at most {fault.silent_s}: {row}"
    return row


def _most_seen(work: Workload) -> list[str]:
    return [f"{count} × {message}" for message, count in work.seen.most_common(MESSAGES)]
