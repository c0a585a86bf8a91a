from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone

from memory_project.operating.examinations.models import Examination


def save(findings: Mapping[str, Mapping[str, Any]]) -> None:
    """Replace what the last run has found. `findings` has a JSON object for each name of a check."""
    now = timezone.now()
    rows = [Examination(name=name, finding=dict(finding), at=now) for name, finding in findings.items()]
    Examination.objects.exclude(name__in=list(findings)).delete()
    Examination.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["name"], update_fields=["finding", "at"]
    )


def stored() -> dict[str, tuple[dict[str, Any], datetime]]:
    """Return the last finding and its time, by the name of the check."""
    return {row.name: (row.finding, row.at) for row in Examination.objects.all()}
