"""The slow checks on a schedule, so that the System page need not wait for other systems."""

from __future__ import annotations

from memory_project.operating.doctor import examination
from memory_project.operating.doctor.findings import FindingState


def check_other_systems() -> str:
    results = examination.store_slow()
    problems = [
        f"{result.name}: {result.finding.found}" for result in results if result.finding.state != FindingState.OK
    ]
    return "; ".join(problems) or "no problems"
