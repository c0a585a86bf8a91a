"""The ASGI application: MCP at /mcp, Django everywhere else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
django_application = get_asgi_application()

# The following imports need the app registry, which get_asgi_application() has loaded.
from anyio import to_thread  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.types import ASGIApp  # noqa: E402

from memories.retrieval.warm_up import warm_up  # noqa: E402
from memory_project.accounts.recognition import owner_of  # noqa: E402
from memory_project.mcp.http_app import http_app, mcp_routes  # noqa: E402
from memory_project.mcp.server import build_server  # noqa: E402
from memory_project.operating.observability import process_metrics, tracing  # noqa: E402
from memory_project.web.admission import protected  # noqa: E402
from memory_project.web.stopping import drained  # noqa: E402

process_metrics.start("web")
tracing.start("web")
mcp_server = build_server(toolsets=["all"])
mcp_application = http_app(mcp_server, settings.MCP_TOOLSETS)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    warm_up()
    async with drained(mcp_server.running()):
        yield
    await to_thread.run_sync(tracing.flush)


routes = Starlette(routes=mcp_routes(mcp_application), lifespan=lifespan)
# Not mounted at "/": a mount doesn't match paths with a line break, which would get Starlette's own error page.
routes.router.default = cast(ASGIApp, django_application)
application = protected(routes, owner_of=owner_of)
