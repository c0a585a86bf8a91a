"""Confirmation by elicitation: the client asks the person, while neither a thread nor a transaction waits.

Since revision 2026-07-28, the result of the call is the question, and the client repeats the call with the answer. This
works over stdio and stateless HTTP. Clients of earlier revisions are asked with a request of the server, which only
stdio can carry.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import anyio
from django.conf import settings
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from foundation.tools.confirmation import ConfirmationQuestion, Declined
from foundation.tools.declaration import Tool

ANSWER_S = 600  # seconds in which the person may answer
KEY = "confirm"  # of the question, and of the answer in its form
FIRST_WITH_RESULTS = "2026-07-28"  # revision in which a result can ask for input; revisions are dates
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {KEY: {"type": "boolean", "title": "Do this", "description": "Clear it to do nothing."}},
    "required": [KEY],
}


def state_security(caller_of: Callable[[Any], Caller | None] | None) -> RequestStateSecurity:
    """Return how the state of a question is sealed, so that each process of an HTTP server can read it.

    `caller_of` returns the caller of a request, who alone may answer. It is None over stdio, which serves one person.
    """

    def principal(ctx: Any) -> str | None:
        caller = caller_of(ctx.request) if caller_of else None
        return f"{caller.email} {caller.connection}" if caller else None

    key = hmac.new(str(settings.SECRET_KEY).encode(), b"commonplace.mcp.request-state", hashlib.sha256).digest()
    return RequestStateSecurity(keys=[key], ttl=ANSWER_S, bind_principal=principal)


def can_ask(context: Context[Any, Any] | None) -> bool:
    """Return whether the client has declared that it can show a form, and the question can reach it."""
    if context is None or context.client_capabilities is None:
        return False
    elicitation = context.client_capabilities.elicitation
    if elicitation is None or (elicitation.form is None and elicitation.url is not None):
        return False  # without any mode, the form is meant
    return asks_in_results(context) or context.request_context.request is None  # no request of HTTP: stdio


def answered(context: Context[Any, Any]) -> str:
    """Return the digest of the question to which the repeated call brings the person's consent; "" if it brings none.

    Raises Declined if the person does not agree.
    """
    response = (context.input_responses or {}).get(KEY)
    if response is None or not context.request_state:
        return ""
    _require_consent(response)
    return context.request_state


async def ask(context: Context[Any, Any], question: ConfirmationQuestion) -> InputRequiredResult | None:
    """Ask the person. Return the result that carries the question, or None if the person has agreed already.

    Raises Declined if the person does not agree, or does not answer in time.
    """
    params = ElicitRequestFormParams(message=question.message, requested_schema=FORM)
    if asks_in_results(context):
        return InputRequiredResult(input_requests={KEY: ElicitRequest(params=params)}, request_state=question.digest)
    response: ElicitResult | None = None
    with anyio.move_on_after(ANSWER_S):
        try:
            response = await context.request_context.session.elicit_form(
                question.message, FORM, related_request_id=context.request_context.request_id
            )
        except (MCPError, ValidationError):
            raise Declined(
                "the client could not ask the person, so nothing was done: ask them yourself, and pass confirm only if "
                "they agree"
            ) from None
    if response is None:
        raise Declined(f"the person did not answer within {ANSWER_S // 60} minutes: nothing was done")
    _require_consent(response)
    return None


def confirmed(tool: Tool, caller: Caller, arguments: dict[str, Any], agreed: str) -> dict[str, Any]:
    """Return the arguments with `confirm`. Raise Conflict if the person agreed to something else than now applies."""
    question = tool.question(caller, **arguments)
    if question is None or question.digest != agreed:
        raise Conflict("the data has changed since the person was asked: nothing was done; call again to ask anew")
    return {**arguments, KEY: question.confirm}


def asks_in_results(context: Context[Any, Any]) -> bool:
    return (context.protocol_version or "") >= FIRST_WITH_RESULTS


def _require_consent(response: Any) -> None:
    action = getattr(response, "action", "cancel")
    content = getattr(response, "content", None) or {}
    if action != "accept" or content.get(KEY) is not True:
        verb = "dismissed the question" if action == "cancel" else "declined"
        raise Declined(f"the person {verb}: nothing was done; don't try another way")
