"""The doctor's checks on the System page."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from memory_project.operating.doctor import examination
from memory_project.operating.doctor.examination import ExaminationResult
from memory_project.operating.doctor.findings import FindingState


@dataclass(frozen=True)
class FindingGroup:
    title: str
    results: list[ExaminationResult]

    @property
    def is_open(self) -> bool:
        """Whether the page shows the group unfolded, because something in it needs a look."""
        return any(result.finding.state in (FindingState.PROBLEM, FindingState.WARNING) for result in self.results)


def groups() -> list[FindingGroup]:
    return [
        FindingGroup(title, list(results))
        for title, results in groupby(examination.for_page(), key=lambda result: result.group_title)
    ]
