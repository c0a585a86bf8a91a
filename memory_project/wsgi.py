"""The WSGI application, without MCP over HTTP, which needs asgi.py or `manage.py mcp --transport http`."""

from __future__ import annotations

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "memory_project.settings")
application = get_wsgi_application()
