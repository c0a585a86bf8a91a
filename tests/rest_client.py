"""Requests to the REST API in tests."""

from __future__ import annotations

from typing import Any

from django.test import Client

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User


def client(user: User, **fields: Any) -> Client:
    return Client(
        headers={"authorization": f"Bearer {create_token(system_caller(), user=user, name='t', **fields)[1]}"}
    )


def post(sender: Client, url: str, body: Any) -> Any:
    return sender.post(url, body, content_type="application/json")
