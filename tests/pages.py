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
    given = {"tab": kind, **values}
    if len(cases) == 1:
        pk, _, seen = str(cases[0]).partition("~")
        address = reverse("decide-case", args=[kind, pk, verdict])
        return client.post(address, {**given, "seen": seen}, follow=True).content.decode()
    address = reverse("decide-cases", args=[kind, verdict])
    return client.post(address, {**given, "cases": list(cases)}, follow=True).content.decode()


def take_back(client: Client, kind: str, *tokens: Any) -> str:
    """Undo verdicts in the inbox, or the one that it offers to undo. Return the text of the next page."""
    if not tokens:
        last = client.get(inbox(kind)).context["last"] or {}
        tokens = tuple(last.get("tokens", []))
    given = {"kind": kind, "tab": kind, "undo": list(tokens)}
    return client.post(reverse("undo-case"), given, follow=True).content.decode()
