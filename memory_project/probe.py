"""The health check of the image, `python -m memory_project.probe`, which needs neither curl nor Django.

Exits with 0 if the web server of this container responds with status 200, and with 1 and a line on stderr otherwise.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from urllib.parse import urlsplit

TIMEOUT_S = 4


def failure(port: str, url: str) -> str:
    """Return why the server on this port is not well, or "". `url` is COMMONPLACE_URL, whose host is accepted."""
    headers = {"Host": urlsplit(url).netloc or "localhost"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/healthz", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            response.read()
    except (OSError, ValueError) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(failure(os.environ.get("COMMONPLACE_PORT") or "8000", os.environ.get("COMMONPLACE_URL", "")) or 0)
