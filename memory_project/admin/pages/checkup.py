"""The doctor's checks on the System page."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from memory_project.operating.doctor import examination
from memory_project.operating.doctor.examination import ExaminationResult
from memory_project.operating.doctor.findings import FindingState

SEVERITY = (FindingState.UNKNOWN, FindingState.OK, FindingState.WARNING, FindingState.PROBLEM)


@dataclass(frozen=True)
class FindingGroup:
    title: str
    results: list[ExaminationResult]

    @property
    def worst(self) -> ExaminationResult:
        return max(self.results, key=lambda result: SEVERITY.index(result.finding.state))

    @property
    def is_open(self) -> bool:
        """Whether the page shows the group unfolded, because something in it needs a look."""
        return self.worst.needs_a_look


def groups() -> list[FindingGroup]:
    return [
        FindingGroup(title, list(results))
        for title, results in groupby(examination.for_page(), key=lambda result: result.group_title)
    ]
