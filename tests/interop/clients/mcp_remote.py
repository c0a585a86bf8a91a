"""mcp-remote, which connects clients that only know stdio to HTTP: the Python SDK speaks to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROXY = Path(os.environ["NODE_FOLDER"]) / "node_modules" / "mcp-remote" / "dist" / "proxy.js"

plan = json.load(sys.stdin)
with tempfile.TemporaryDirectory() as folder:
    options = ["--allow-http", "--transport", "http-only", "--header", f"Authorization: Bearer {plan['token']}"]
    stdio = {
        "transport": "stdio",
        "command": ["node", str(PROXY), plan["url"], *options],
        "env": {**os.environ, "MCP_REMOTE_CONFIG_DIR": folder},
        "cwd": folder,
        "calls": plan["calls"],
    }
    driver = Path(__file__).with_name("python_sdk_2.py")
    process = subprocess.run([sys.executable, str(driver)], input=json.dumps(stdio), capture_output=True, text=True)
if process.returncode:
    sys.exit(process.stderr)
print(process.stdout)
