from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.apps import AppConfig
from django.urls import reverse

from memories.contract.urls import LINKS


class PortalConfig(AppConfig):
    """The web pages of the product. No other app imports it, so its pages may import from every other app."""

    name = "memory_project.portal"
    label = "portal"

    def ready(self) -> None:
        LINKS.register("memory", lambda key: reverse("memory", args=[UUID(key)]))
        LINKS.register("insight", lambda key: reverse("review-one", args=[UUID(key)]))
        LINKS.register("my-insight", lambda key: f"{reverse('my-insights')}#i-{key}")
        LINKS.register("contradictions", lambda key: reverse("contradictions"))
        LINKS.register("question", lambda key: f"{reverse('questions')}#q-{key}")
        LINKS.register("suggestion", lambda key: f"{reverse('suggestions')}#s-{key}")
        LINKS.register("citing-document", lambda key: reverse("citing-document", args=[UUID(key)]))
        LINKS.register("wipe", lambda key: reverse("wipe", args=[UUID(key)]))
        LINKS.register("stale", lambda key: reverse("stale-review"))
        LINKS.register("webhook", lambda key: f"{reverse('webhooks')}#w-{key}")
        LINKS.register("upstream-tools", lambda key: reverse("admin:upstream-tools"))
        LINKS.register("batch", lambda key: reverse("batch", args=[UUID(key)]))
        LINKS.register("entity", lambda urn: f"{reverse('entity')}?{urlencode({'urn': urn})}")
        LINKS.register("changeset", lambda key: reverse("changeset", args=[UUID(key)]))
        LINKS.register("analysis-export", lambda token: f"{reverse('analysis-export')}?export={token}")
