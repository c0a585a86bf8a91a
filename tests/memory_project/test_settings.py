"""An invalid setting stops the start with one line that names the variable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_project.secret_key import load_secret_key

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
        ("METRICS_TOKEN", "short", "at least 16 characters"),
        ("MCP_TOOLSETS", "memory,bogus", "knowledge"),
        ("MCP_TOOLSETS", ",", "memory"),
        ("TRUSTED_PROXIES", "*", "10.1.0.0/16"),
        ("TRUSTED_PROXIES", "10.0.0.1/8", "10.1.0.0/16"),
        ("TRUSTED_PROXIES", "0.0.0.0/0", "the addresses of your proxies"),
        ("RECALL_CONTEXT", '{"cosine": NaN}', "numbers"),
        ("GRAPH_SPLIT_AT", '{"*": 1e999}', "numbers"),
        ("RECALL_MIN_SCORE", "-1", "0.0 to 10.0"),
        ("TEXT_SEARCH_CONFIG", "bogus", "english"),
        ("TIME_ZONE", "Mars/Olympus", "Europe/Zurich"),
    ],
)
def test_an_error_names_the_variable_and_the_allowed_values(name: str, value: str, allowed: str) -> None:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memory_project.settings", name: value}
    command = [sys.executable, str(ROOT / "manage.py"), "check", "--database", "default"]
    process = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode != 0
    message = process.stderr.strip()
    assert name in message
    assert allowed in message


def test_importing_the_settings_changes_nothing(tmp_path: Path) -> None:
    """The key and the database account are created only when they are needed."""
    home = tmp_path / "home"
    tmp_path.chmod(0o700)  # under root, the account of the database server could not enter it
    code = "import subprocess; subprocess.run = None; from django.conf import settings; print(settings.DATABASES)"
    environment = {**os.environ, "COMMONPLACE_HOME": str(home), "DJANGO_SETTINGS_MODULE": "memory_project.settings"}
    environment.pop("DATABASE_URL", None)
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, capture_output=True)
    assert not home.exists()


def test_the_key_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "home" / "secret_key"
    assert load_secret_key(file) == load_secret_key(file)
    assert (len(load_secret_key(file)) > 50, file.stat().st_mode & 0o777) == (True, 0o600)
