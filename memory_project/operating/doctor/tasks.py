"""All checks on a schedule, so that the System page need not wait for other systems, and metrics tell their states."""

from __future__ import annotations

from django_q.models import OrmQ

from memory_project.operating.doctor import examination, machine_facts
from memory_project.operating.doctor.findings import FindingState


def check_health() -> str:
    machine_facts.note_queue(OrmQ.objects.count())
    results = examination.store_all()
    problems = [
        f"{result.name}: {result.finding.found}" for result in results if result.finding.state != FindingState.OK
    ]
    return "; ".join(problems) or "no problems"
