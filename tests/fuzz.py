"""Requests that schemathesis makes up from the OpenAPI document, sent to a running server: `python -m tests.fuzz`.

Starts an installation of its own with the demo's content, as an admin whose token may manage accounts. Prints
schemathesis' summary and ends with its status, which is 1 if an answer differs from the document. Further arguments are
those of `schemathesis run`, such as `--include-tag memories` or `--seed 1`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import schemathesis

from tests.e2e.processes import ROOT, command, environment, folder_and_port, up

PERSON = "sam@fernhill.example"  # an admin of the demo
# A schema can't say that an entity must exist, or which fields need which others.
LEFT_OUT = "positive_data_acceptance"
# 428 is RFC 6585's answer to a request without If-Match.
CHECKS = "[checks.missing_required_header]\nexpected-statuses = [400, 401, 403, 404, 406, 415, 422, 428]\n"
TRACEBACK = re.compile(r"^([^\n]*)\n(Traceback \(most recent call last\):\n.*?^\S[^\n]*)$", re.MULTILINE | re.DOTALL)
MAX_QUERY = 60_000  # the HTTP server refuses longer addresses before the API sees them


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    return len(urlencode(case.query or {}, doseq=True)) < MAX_QUERY


def main(arguments: list[str]) -> int:
    with folder_and_port() as (home, port), up(home, port):
        (home / "schemathesis.toml").write_text(CHECKS)
        address = f"http://localhost:{port}/api/v1/schema/"
        header = f"Authorization: Bearer {_token(home, port)}"
        options = ["--exclude-checks", LEFT_OUT, "--header", header, "--continue-on-failure", *arguments]
        environ = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzz", "PYTHONPATH": str(ROOT)}
        program = Path(sys.executable).parent / "schemathesis"
        status = subprocess.run([program, "run", address, *options], cwd=home, env=environ)
        faults = TRACEBACK.findall((home / "up.log").read_text())
    for count, (_, trace) in enumerate(faults, 1):
        print(f"\nException {count} of the server:\n{trace}")
    return status.returncode or bool(faults)


def _token(home: Path, port: int) -> str:
    rights = ["--right", "administer", "--right", "wipe"]
    made = subprocess.run(
        command("createtoken", PERSON, *rights),
        env=environment(home, port), cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return made.stdout.split()[-1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
