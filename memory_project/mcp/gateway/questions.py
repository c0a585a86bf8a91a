"""Questions of upstreams to the person at the client (elicitation), in the forms of both protocol revisions.

A question shows which upstream asks, because the client shows it as one of Commonplace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import mcp.types as types
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from foundation.operations import errors
from memory_project.mcp.confirmations import ANSWER_S, asks_in_results, can_ask
from memory_project.mcp.gateway.declaration import Upstream

KEY = "upstream"  # of the question in a result
KEPT, PASSED = "kept", "passed"  # begin the state of a call that waits here, and of one that the upstream repeats


def as_result(params: types.ElicitRequestParams, upstream: Upstream, state: str) -> types.InputRequiredResult:
    """Return a result that asks a question in the middle of a call, which waits under `state`."""
    request = types.ElicitRequest(params=_named(params, upstream))
    return types.InputRequiredResult(input_requests={KEY: request}, request_state=f"{KEPT}:{state}")


def answer_in(context: Context[Any, Any]) -> types.ElicitResult:
    """Return the person's answer in a repeated call; a missing or odd one counts as a dismissed question."""
    response = (context.input_responses or {}).get(KEY)
    return response if isinstance(response, types.ElicitResult) else types.ElicitResult(action="cancel")


async def pass_on(
    asked: types.InputRequiredResult, upstream: Upstream, context: Context[Any, Any] | None
) -> types.InputRequiredResult | Mapping[str, Any]:
    """Return the upstream's question for the client, or the answers if the client was asked directly.

    Raises Upstream if the client can't ask its person, or the upstream asks for anything else than an answer.
    """
    asks = {
        key: request.params
        for key, request in (asked.input_requests or {}).items()
        if isinstance(request, types.ElicitRequest)
    }
    if context is None or not can_ask(context) or len(asks) < len(asked.input_requests or {}):
        raise errors.Upstream(f"{upstream.name}: asks for something that this client can't provide")
    if asks_in_results(context):
        named = {key: types.ElicitRequest(params=_named(params, upstream)) for key, params in asks.items()}
        state = f"{PASSED}:{asked.request_state or ''}"
        return types.InputRequiredResult(input_requests=dict(named), request_state=state)
    return {key: await ask_directly(params, upstream, context) for key, params in asks.items()}


async def ask_directly(
    params: types.ElicitRequestParams, upstream: Upstream, context: Context[Any, Any] | None
) -> types.ElicitResult | types.ErrorData:
    """Ask the person at a client of an earlier revision, over stdio."""
    assert context is not None
    named = _named(params, upstream)
    session = context.request_context.session
    request_id = context.request_context.request_id
    with anyio.move_on_after(ANSWER_S):
        try:
            if isinstance(named, types.ElicitRequestURLParams):
                return await session.elicit_url(
                    named.message, named.url, named.elicitation_id or "", related_request_id=request_id
                )
            return await session.elicit_form(named.message, named.requested_schema, related_request_id=request_id)
        except (MCPError, ValidationError):
            return types.ErrorData(code=types.INVALID_REQUEST, message="the client could not ask the person")
    return types.ElicitResult(action="cancel")


def _named(params: types.ElicitRequestParams, upstream: Upstream) -> types.ElicitRequestParams:
    begins = f"{upstream.name} asks: "
    message = params.message if params.message.startswith(begins) else f"{begins}{params.message}"
    return params.model_copy(update={"message": message})
