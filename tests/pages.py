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


def inbox(kind: str = "") -> str:
    """Return the address of the inbox, or of one of its tabs."""
    return reverse("inbox") + (f"?kind={kind}" if kind else "")


def give(client: Client, kind: str, verdict: str, *cases: Any, **values: Any) -> str:
    """Give a verdict on cases in the inbox, named by id or by id and token. Return the text of the next page."""
    given = {"kind": kind, "tab": kind, "verdict": verdict, "cases": list(cases), **values}
    return client.post(reverse("decide-cases"), given, follow=True).content.decode()


def take_back(client: Client, kind: str, *verdicts: Any) -> str:
    """Undo verdicts in the inbox, or the last one if none is named. Return the text of the next page."""
    given = {"kind": kind, "tab": kind, "verdicts": list(verdicts)} if verdicts else {"tab": kind}
    return client.post(reverse("undo-case"), given, follow=True).content.decode()
