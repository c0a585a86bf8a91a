"""Codes of protocol errors."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError
from mcp import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, PromptReference, ResourceTemplateReference

from foundation.people.caller import Caller
from memory_project.mcp import prompts
from memory_project.mcp.protocol_errors import RESOURCE_NOT_FOUND
from tests.mcp_client import Action, as_caller

pytestmark = pytest.mark.django_db(transaction=True)

MEMORY = ResourceTemplateReference(type="ref/resource", uri="commonplace://memory/{id}")
START = PromptReference(type="ref/prompt", name="start_of_session")


def error_of(caller: Caller, action: Action, mode: str = "auto") -> tuple[int, str]:
    async def catch(client: Any) -> tuple[int, str]:
        with pytest.raises(MCPError) as caught:
            await action(client)
        return caught.value.code, caught.value.message

    code, message = as_caller(caller, catch, mode, ["all"])
    return code, message


# -- other requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "named"),
    [
        (lambda client: client.get_prompt("nothing"), "nothing"),
        (lambda client: client.get_prompt("capture_this", {"subject": "x"}), "subject"),
        (lambda client: client.get_prompt("start_of_session", {"x": "y"}), "x"),
        (lambda client: client.complete(MEMORY, {"name": "urn", "value": ""}), "urn"),
        (lambda client: client.complete(START, {"name": "topic", "value": ""}), "topic"),
        (
            lambda client: client.complete(
                ResourceTemplateReference(type="ref/resource", uri="commonplace://x/{id}"), {"name": "id", "value": ""}
            ),
            "commonplace://x",
        ),
        (
            lambda client: client.complete(PromptReference(type="ref/prompt", name="x"), {"name": "y", "value": ""}),
            "'x'",
        ),
    ],
)
def test_unknown_names_and_cursors_have_the_code_of_invalid_parameters(
    alice: Caller, action: Action, named: str
) -> None:
    code, message = error_of(alice, action)
    assert (code, named in message) == (INVALID_PARAMS, True), message


@pytest.mark.parametrize(("mode", "code"), [("auto", INVALID_PARAMS), ("legacy", RESOURCE_NOT_FOUND)])
def test_an_unknown_resource_has_the_code_of_its_protocol_version(alice: Caller, mode: str, code: int) -> None:
    for uri in ("commonplace://memory/" + "0" * 32, "commonplace://nothing/x", "other://x"):
        assert error_of(alice, lambda client, uri=uri: client.read_resource(uri), mode)[0] == code  # type: ignore[misc]


def test_an_unexpected_error_keeps_its_text_from_the_client(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in (RuntimeError("secret"), DatabaseError("secret")):

        def fail(error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(prompts, "offered", fail)
        code, message = error_of(alice, lambda client: client.list_prompts())
        assert (code, "secret" in message) == (INTERNAL_ERROR, False)
