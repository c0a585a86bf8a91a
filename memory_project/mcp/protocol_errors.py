"""Errors of the MCP protocol, for requests other than tool calls.

The SDK would respond to an unexpected exception with the code 0 and the exception's text, which may quote stored data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound, from_database_error
from memory_project.operating.observability import request_context

log = logging.getLogger(__name__)

RESOURCE_NOT_FOUND = -32002  # of protocol versions before 2026-07-28, which uses INVALID_PARAMS (SEP-2164)
FIRST_WITHOUT_RESOURCE_NOT_FOUND = "2026-07-28"
ERRORS_OF_PARAMS = (Invalid, NotFound, Forbidden, Conflict)


async def respond_with_protocol_errors(ctx: Any, call_next: Callable[[Any], Any]) -> Any:
    """Middleware of the SDK: raise every error of a request as an MCPError with a code that the specification names."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):  # the SDK translates a ValidationError
        raise
    except DomainError as error:
        raise protocol_error(error, ctx) from None
    except Exception as error:
        if domain_error := from_database_error(error):
            log.warning("%s: %s", ctx.method, type(error).__name__)  # the message may quote stored text
            raise protocol_error(domain_error, ctx) from None
        log.exception("%s failed", ctx.method)
        raise MCPError(
            INTERNAL_ERROR, "something went wrong; the details are in the server's log", {"code": "internal"}
        ) from None


def protocol_error(error: DomainError, ctx: Any) -> MCPError:
    found_by = request_context.reference()
    data = {"code": error.code, **({"trace_id": found_by} if found_by else {})}
    if ctx.method != "resources/read":
        return MCPError(INVALID_PARAMS if isinstance(error, ERRORS_OF_PARAMS) else INTERNAL_ERROR, error.message, data)
    data["uri"] = str((ctx.params or {}).get("uri", ""))
    if not isinstance(error, ERRORS_OF_PARAMS):
        return MCPError(INTERNAL_ERROR, error.message, data)
    # a resource that the caller may not read looks like one that does not exist
    is_new = ctx.protocol_version >= FIRST_WITHOUT_RESOURCE_NOT_FOUND
    return MCPError(INVALID_PARAMS if is_new else RESOURCE_NOT_FOUND, error.message, data)
