"""The health check, for load balancers and `manage.py up`."""

from __future__ import annotations

import psycopg
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from memories import embedding
from memories.database import restore_marker
from memories.database.locks import DIRECT
from memory_project.replica.looks import watch

CONNECT_TIMEOUT_S = 2
WATCHER = "SELECT value FROM catalog_cursors WHERE name = 'watcher'"


@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Respond with status 503 if the database is unavailable, otherwise with 200.

    The body also contains the state of the embedding model and of the catalog.
    """
    state = embedding.state()
    body = {"status": "ok", "embeddings": state["state"], "catalog": "ok"}
    if settings.DATABASE_REPLICA_URL:
        body["replica"] = watch.summary()
    parameters = {k: v for k, v in connection.get_connection_params().items() if k in DIRECT}
    try:
        # connect directly, because running calls may have exhausted the pool
        with psycopg.connect(**{**parameters, "connect_timeout": CONNECT_TIMEOUT_S}) as direct:
            direct.execute("SET LOCAL statement_timeout = 2000")  # a pooler refuses it as a parameter of the connection
            if unfinished := restore_marker.refusal(direct):
                return JsonResponse({**body, "status": unfinished.message, "degraded": True}, status=503)
            watcher = direct.execute(WATCHER).fetchone()
    except psycopg.Error:
        return JsonResponse({**body, "status": "the database does not answer", "degraded": True}, status=503)
    if watcher and watcher[0]:
        body["catalog"] = str(watcher[0])
    degraded = body["embeddings"] in ("off", "failed", "away") or body["catalog"] != "ok"
    degraded = degraded or body.get("replica", "ok") != "ok"
    return JsonResponse({**body, "degraded": degraded})
