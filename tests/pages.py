"""Pages in tests: a signed-in browser, and the text of a page."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from django.urls import reverse

from memory_project.models import User


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, url: str, **extra: Any) -> str:
    response = client.get(url, **extra)
    assert response.status_code == 200
    return " ".join(str(response.content, "utf-8").split())


def text_of(client: Client, name: str, *args: Any, **params: str) -> str:
    """Return the text of the page with this name."""
    return text(client, reverse(name, args=args), data=params)


INSIGHTS = "admin:knowledge_insight_changelist"


def run_action(client: Client, name: str, *ids: Any, list_url: str = INSIGHTS, **fields: Any) -> Any:
    return client.post(reverse(list_url), {"action": name, ACTION_CHECKBOX_NAME: [str(pk) for pk in ids], **fields})
