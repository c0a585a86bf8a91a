"""A wrong setting stops the start in one line with the variable's name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("COMMONPLACE_PORT", "99999", "1 to 65535"),
        ("COMMONPLACE_PORT", "many", "1 to 65535"),
        ("COMMONPLACE_URL", "nonsense", "http://"),
        ("COMMONPLACE_URL", "http://[bad", "http://"),
        ("DEBUG", "perhaps", "true"),
        ("EMBEDDING_PROVIDER", "magic", "minilm"),
        ("EMBEDDING_DIMENSIONS", "0", "1 to 2000"),
        ("LOG_LEVEL", "loud", "WARNING"),
        ("MCP_TOOLSETS", "memory,bogus", "knowledge"),
        ("RECALL_MIN_SCORE", "-1", "0.0 to 10.0"),
        ("TEXT_SEARCH_CONFIG", "bogus", "english"),
        ("TIME_ZONE", "Mars/Olympus", "Europe/Zurich"),
    ],
)
def test_a_wrong_value_names_the_variable_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memory_project.settings", name: value}
    command = [sys.executable, str(ROOT / "manage.py"), "check", "--database", "default"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    last = done.stderr.strip()
    assert name in last
    assert allowed in last
