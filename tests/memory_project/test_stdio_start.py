"""What a server over stdio imports, because each client starts a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from memory_project.__main__ import settings_of_command

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """
import asyncio, sys
import django
django.setup()
from memory_project.mcp.server import build_server
from foundation.people.caller import Caller
someone = Caller(email="ana@example.org", persona="", personas=frozenset())
server = build_server(identify=lambda request: someone)
assert asyncio.run(server.list_tools())
print(*sorted(sys.modules))
"""
# Packages that are not the standard library's. `rich` and `uvicorn` are imported by the SDK of MCP.
ALLOWED = {
    "analysis", "annotated_types", "anyio", "asgiref", "attr", "babel", "certifi", "click", "cryptography",
    "dj_database_url", "django", "django_q", "foundation", "h11", "httpcore2", "httpx2", "idna", "ijson", "knowledge",
    "mcp", "mcp_types", "memories", "memory_project", "opentelemetry", "pgvector", "picklefield", "prometheus_client",
    "psutil", "psycopg", "psycopg_binary", "psycopg_pool", "pydantic", "pydantic_core", "python_multipart",
    "pythonjsonlogger", "pytz", "re2", "rich", "sniffio", "sqlparse", "sse_starlette", "starlette",
    "typing_extensions", "typing_inspection", "uvicorn",
}  # fmt: skip
# Packages of our own that only browsers and other systems need.
FORBIDDEN = (
    "django.contrib.admin", "django.contrib.sessions", "memory_project.admin", "memory_project.portal.views",
    "memory_project.operating.doctor", "memory_project.accounts.oauth", "memory_project.rest.endpoints",
    "memory_project.urls",
    "memory_project.mcp.http_app", "memory_project.mcp.gateway.session", "memory_project.mcp.gateway.oauth",
)  # fmt: skip


def imported() -> list[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memory_project.stdio_settings"}
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return process.stdout.split()


def test_a_server_over_stdio_imports_nothing_but_what_it_needs() -> None:
    modules = imported()
    packages = {name.partition(".")[0] for name in modules if not name.startswith("_")}
    assert packages - ALLOWED - sys.stdlib_module_names - {"cython_runtime"} == set()
    assert [name for name in modules if name.startswith(FORBIDDEN)] == []


def test_only_stdio_gets_the_small_settings() -> None:
    stdio, whole = "memory_project.stdio_settings", "memory_project.settings"
    assert settings_of_command(["mcp", "--as", "ana@example.org"]) == stdio
    assert settings_of_command(["mcp", "--transport", "http"]) == whole
    assert settings_of_command(["mcp", "--transport=http"]) == whole
    assert settings_of_command(["serve"]) == whole
