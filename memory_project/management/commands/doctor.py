from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from memory_project.management.arguments import between
from memory_project.operating.doctor import examination
from memory_project.operating.doctor.examination import ExaminationResult
from memory_project.operating.doctor.findings import FindingState

MARKS = {
    FindingState.OK: "ok",
    FindingState.WARNING: "WARNING",
    FindingState.PROBLEM: "PROBLEM",
    FindingState.UNKNOWN: "unknown",
}


class Command(BaseCommand):
    help = "Check the installation, and say how to mend what is wrong. Changes nothing."
    requires_system_checks = ()  # it runs its own, and must answer while the database is down

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
        parser.add_argument("--strict", action="store_true", help="exit with 1 after warnings, too")
        parser.add_argument(
            "--processes", type=between(1, 10_000), default=1, help="number of web processes on all machines"
        )

    def handle(self, *, as_json: bool, strict: bool, processes: int, **options: Any) -> None:
        results = examination.everything(processes=processes)
        worst = examination.worst(results)
        if as_json:
            self.stdout.write(json.dumps({"state": worst, "checks": [as_object(result) for result in results]}))
        else:
            self.print_page(results)
        code = int(worst == FindingState.PROBLEM or (strict and worst == FindingState.WARNING))
        if examination.is_unfinished():
            # an ordinary exit would wait for a model that is still loading, or abort its native code
            self.stdout.flush()
            os._exit(code)
        if code:
            sys.exit(code)

    def print_page(self, results: list[ExaminationResult]) -> None:
        group = ""
        for result in results:
            if result.check.group != group:
                self.stdout.write(f"{'' if not group else chr(10)}{result.group_title}")
                group = result.check.group
            finding = result.finding
            self.stdout.write(f"  {MARKS[finding.state]:<8} {result.title}: {finding.found}")
            if str(finding.fix):
                self.stdout.write(f"           → {finding.fix}")
        counts = {state: sum(result.finding.state == state for result in results) for state in FindingState}
        problems, warnings, unknown, good = (
            counts[state]
            for state in (FindingState.PROBLEM, FindingState.WARNING, FindingState.UNKNOWN, FindingState.OK)
        )
        self.stdout.write(f"\n{problems} problems, {warnings} warnings, {unknown} unknown, {good} ok")


def as_object(result: ExaminationResult) -> dict[str, str]:
    finding = result.finding
    return {
        "group": result.check.group,
        "name": result.name,
        "state": finding.state,
        "found": str(finding.found),
        "fix": str(finding.fix),
    }
