from __future__ import annotations

from functools import partial
from urllib.parse import quote_plus
from uuid import UUID

from django.apps import AppConfig

from foundation.links import LINKS

# Paths of pages by kind of object. They are not looked up by the names of routes, because a server over stdio knows the
# addresses of pages without loading them. A test compares them with the routes.
OF_IDS = {
    "memory": "/memories/{}/",
    "insight": "/review/{}/",
    "citing-document": "/citations/{}/",
    "wipe": "/wipe/{}/",
    "batch": "/batches/{}/",
    "changeset": "/changesets/{}/",
}
OF_KEYS = {
    "my-insight": "/insights/#i-{}",
    "inbox": "/inbox/",
    "contradictions": "/inbox/?kind=contradiction",
    "edit-memory": "/memories/{}/edit/",
    "edit-insight": "/review/{}/edit/",
    "question": "/inbox/?kind=question#case-{}",
    "suggestion": "/inbox/?kind=suggestion#case-{}",
    "stale": "/inbox/?kind=stale",
    "webhook": "/connect/webhooks/#w-{}",
    "upstream-tools": "/admin/upstream-tools/",
    "connected-systems": "/connect/systems/",
    "entity": "/knowledge/entity/?urn={}",
    "analysis-export": "/analyses/export/?export={}",
}


class PortalConfig(AppConfig):
    """The web pages of the product. No other app imports it, so its pages may import from every other app."""

    name = "memory_project.portal"
    label = "portal"

    def ready(self) -> None:
        for kind, path in OF_IDS.items():
            LINKS.register(kind, partial(_path_of_id, path))
        for kind, path in OF_KEYS.items():
            LINKS.register(kind, partial(_path_of_key, path))


def _path_of_id(path: str, key: str) -> str:
    return path.format(UUID(key))


def _path_of_key(path: str, key: str) -> str:
    return path.format(quote_plus(key))
