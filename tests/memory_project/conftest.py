from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from memory_project import asgi
from memory_project.web.request_limits import uvicorn_options
from tests.knowledge.conftest import cora, cora_user, curators, small_catalog

__all__ = ["cora", "cora_user", "curators", "small_catalog"]


@pytest.fixture
def http() -> Iterator[str]:
    """Serve the ASGI application on a free port. Yields its address."""
    application = importlib.reload(asgi).application  # reloaded because its session manager can run only once
    options = {**uvicorn_options(), "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()
