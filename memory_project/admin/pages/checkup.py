"""The doctor's checks on the System page."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from memory_project.operating.doctor import examination
from memory_project.operating.doctor.examination import Result
from memory_project.operating.doctor.findings import State


@dataclass(frozen=True)
class Group:
    title: str
    results: list[Result]

    @property
    def is_open(self) -> bool:
        """Whether the page shows the group unfolded, because something in it needs a look."""
        return any(result.finding.state in (State.PROBLEM, State.WARNING) for result in self.results)


def groups() -> list[Group]:
    return [
        Group(title, list(results))
        for title, results in groupby(examination.for_page(), key=lambda result: result.group_title)
    ]
