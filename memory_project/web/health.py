"""The health check, for load balancers and `manage.py up`."""

from __future__ import annotations

import psycopg
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from foundation import embedding
from foundation.database import restore_marker
from foundation.database.connections import direct_connection
from memory_project.operating.replica.routing import watch
from memory_project.operating.shared import secret_key_check

WATCHER = "SELECT value FROM catalog_cursors WHERE name = 'watcher'"
# the fingerprint of the secret key, and the number of queued tasks that no worker could read
MACHINES = """
    SELECT (SELECT value FROM installation_facts WHERE name = %s),
        (SELECT count(*) FROM unreadable_tasks mark JOIN django_q_ormq queued ON queued.id = mark.task)"""


@require_safe
def health(request: HttpRequest) -> JsonResponse:
    """Respond with status 503 if the database is unavailable, otherwise with 200.

    The body also contains the state of the embedding model and of the catalog.
    """
    state = embedding.state()
    body = {"status": "ok", "embeddings": state["state"], "catalog": "ok", "tasks": "ok"}
    if settings.DATABASE_REPLICA_URL:
        body["replica"] = watch.summary()
    try:
        with direct_connection() as direct:
            if unfinished := restore_marker.refusal(direct):
                return JsonResponse({**body, "status": unfinished.message, "degraded": True}, status=503)
            watcher = direct.execute(WATCHER).fetchone()
            key, unreadable = direct.execute(MACHINES, [secret_key_check.FACT]).fetchone() or ("", 0)
    except psycopg.Error:
        return JsonResponse({**body, "status": "the database does not answer", "degraded": True}, status=503)
    if watcher and watcher[0]:
        body["catalog"] = str(watcher[0])
    if not secret_key_check.is_own(key or ""):  # the database was away when this process started
        return JsonResponse({**body, "status": "this machine has another secret key", "degraded": True}, status=503)
    if unreadable:
        body["tasks"] = f"no worker can read {unreadable} of the queued tasks"
    degraded = body["embeddings"] in ("off", "failed", "away")
    degraded = degraded or any(body.get(part, "ok") != "ok" for part in ("catalog", "tasks", "replica"))
    return JsonResponse({**body, "degraded": degraded})
