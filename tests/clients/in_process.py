"""Transports of httpx that lead to Django in this process, so that a client sees the test's transaction."""

from __future__ import annotations

from typing import Any

import httpx
from asgiref.sync import sync_to_async
from commonplace_client import AsyncCommonplace, Commonplace
from django.test import Client

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User

URL = "http://testserver"


class InProcess(httpx.BaseTransport):
    """Records the requests. `failures` are raised or returned instead of answers, first to last."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.failures: list[Any] = []
        self.lost: list[bool] = []  # for each failure, whether the server performs the request before it

    def fail(self, failure: Exception | httpx.Response, *, after_performing: bool = False) -> None:
        self.failures.append(failure)
        self.lost.append(after_performing)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        if not self.failures:
            return self._performed(request)
        if self.lost.pop(0):
            self._performed(request)
        failure = self.failures.pop(0)
        if isinstance(failure, Exception):
            raise failure
        response: httpx.Response = failure
        return response

    def _performed(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "content-type"}
        content_type = request.headers.get("content-type", "application/octet-stream")
        path = request.url.raw_path.decode()
        answer: Any = Client().generic(request.method, path, request.content, content_type, headers=headers)
        return httpx.Response(answer.status_code, headers=list(answer.items()), content=answer.content)


class AsyncInProcess(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.transport = InProcess()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        # in the thread of the test, which has the transaction
        return await sync_to_async(self.transport.handle_request)(request)


def token_of(user: User, **limits: Any) -> str:
    return create_token(system_caller(), user=user, name="client", **limits)[1]


def client_of(user: User) -> tuple[Commonplace, InProcess]:
    transport = InProcess()
    return Commonplace(URL, token_of(user), transport=transport), transport


def async_client_of(user: User) -> tuple[AsyncCommonplace, InProcess]:
    transport = AsyncInProcess()
    return AsyncCommonplace(URL, token_of(user), transport=transport), transport.transport
