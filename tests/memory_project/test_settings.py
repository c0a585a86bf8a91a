"""An invalid setting stops the start with one line that names the variable."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from memory_project.operating import env
from memory_project.operating.secret_key import load_secret_key

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
        ("GRAPH_SPLIT_AT", '{"*": NaN}', "numbers"),
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


def read_setting(name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Print a setting in a process that has no other settings than these."""
    code = f"from django.conf import settings; print(str(settings.{name}))"
    base = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "memory_project.settings"}
    return subprocess.run(
        [sys.executable, "-c", code], env={**base, **environment}, cwd=ROOT, capture_output=True, text=True
    )


def test_a_secret_can_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"  spaces belong to it \r\n")
    assert read_setting("SECRET_KEY", SECRET_KEY_FILE=str(file)).stdout == "  spaces belong to it \n"
    fallbacks = read_setting("SECRET_KEY_FALLBACKS", SECRET_KEY_FALLBACKS_FILE=str(file)).stdout
    assert fallbacks == "['spaces belong to it']\n"  # a list, whose parts are separated by commas and spaces
    assert read_setting("EMAIL_HOST_PASSWORD", EMAIL_HOST_PASSWORD_FILE=str(file)).stdout[:8] == "  spaces"


@pytest.mark.parametrize(
    ("content", "variables", "problem"),
    [
        (b"x", {"DATAHUB_GMS_TOKEN": "y", "DATAHUB_GMS_TOKEN_FILE": "FILE"}, "are both set"),
        (None, {"SECRET_KEY_FILE": "FILE"}, "can't be read: No such file or directory"),
        (b"\n", {"SSO_CLIENT_SECRET_FILE": "FILE"}, "is empty"),
        (b"\xff", {"EMBEDDING_API_KEY_FILE": "FILE"}, "is not a text in UTF-8"),
        (b"x" * 70_000, {"DATABASE_URL_FILE": "FILE"}, "is too large"),
    ],
)
def test_a_file_that_is_no_secret_stops_the_start(
    tmp_path: Path, content: bytes | None, variables: dict[str, str], problem: str
) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)
    name = next(iter(variables))
    done = read_setting("DEBUG", **{key: str(file) if value == "FILE" else value for key, value in variables.items()})
    last_line = done.stderr.strip().splitlines()[-1]
    assert (name in last_line, problem in last_line) == (True, True), last_line


def test_every_secret_can_be_in_a_file() -> None:
    source = (ROOT / "memory_project" / "settings.py").read_text()
    names = re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', source)
    secret = {name for name in names if re.search(r"SECRET|PASSWORD$|TOKEN$|API_KEY$|DATABASE_.*URL$", name)}
    assert {name for name in secret if not env.is_secret(name)} == set()
    assert {"SECRET_KEY", "DATABASE_URL", "DATABASE_OWNER_URL", "SSO_CLIENT_SECRET"} <= secret


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
