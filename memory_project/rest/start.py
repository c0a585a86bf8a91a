"""The start of the API: addresses for programs and people who explore it."""

from __future__ import annotations

from django.conf import settings
from django.urls import reverse
from typing_extensions import TypedDict

from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from memory_project.rest.document import document
from memory_project.rest.endpoints import Endpoint, route


class StartResponse(TypedDict):
    schema: str
    documentation: str
    addresses: dict[str, str]


class ListAddresses(Operation):
    """List what can be read, by operation"""


def _start(caller: Caller, operation: ListAddresses) -> StartResponse:
    """Return the addresses of reading operations that need no parameters."""
    addresses = {
        methods["get"]["operationId"]: settings.COMMONPLACE_URL + path
        for path, methods in document()["paths"].items()
        if "get" in methods and not any(part.get("required") for part in methods["get"].get("parameters", ()))
    }
    return {
        "schema": settings.COMMONPLACE_URL + reverse("api-schema"),
        "documentation": settings.COMMONPLACE_URL + reverse("api-docs"),
        "addresses": addresses,
    }


urlpatterns = [route("start", "", get=Endpoint("list_addresses", _start))]
