"""Results of upstream tools in the form in which clients get them: within the answer budget, and marked as quotations.

Content of all types passes as it is. Links to resources lead through Commonplace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from mcp.types import CallToolResult, ContentBlock, EmbeddedResource, ResourceLink, TextContent, TextResourceContents

from foundation.operations.display import show_invisible
from foundation.operations.errors import DomainError
from foundation.tools.answers import QUOTATIONS
from foundation.tools.budget import fit, size
from memory_project.mcp.gateway.names import offered_uri
from memory_project.mcp.responses import AttachedContent, error_answer

MAX_ERROR = 500
MIN_CUT = 200  # characters of a text that are kept even if the budget is used up


def data_of(result: CallToolResult) -> dict[str, Any]:
    """Return what the result says, for the audit and the search for entities."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    texts += [
        block.resource.text
        for block in result.content
        if isinstance(block, EmbeddedResource) and isinstance(block.resource, TextResourceContents)
    ]
    links = [str(block.uri) for block in result.content if isinstance(block, ResourceLink)]
    # the texts repeat the structured content
    structured = result.structured_content
    return {"result": structured if structured is not None else texts, **({"links": links} if links else {})}


def first_text(result: CallToolResult) -> str:
    text = next((block.text for block in result.content if isinstance(block, TextContent)), "failed without a text")
    return text[:MAX_ERROR]


def failure(error: DomainError) -> CallToolResult:
    text = json.dumps(error_answer(error), ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def delivered(result: CallToolResult, upstream: str, attached: AttachedContent) -> CallToolResult:
    structured = result.structured_content
    content = list(result.content)
    if isinstance(structured, dict) and size(structured) > settings.ANSWER_BUDGET_BYTES:
        structured = fit(structured)
        content = [block for block in content if not isinstance(block, TextContent)]
        content.insert(0, TextContent(type="text", text=json.dumps(structured, ensure_ascii=False)))
    fitting = [_readdressed(block, upstream) for block in _within_budget(content)]
    additions = [*(show_invisible(text) for text in attached.texts), QUOTATIONS]
    fitting += [TextContent(type="text", text=text) for text in additions]
    meta: Any = _own_meta(result.meta)
    return CallToolResult(content=fitting, structured_content=structured, is_error=result.is_error, meta=meta)


def _within_budget(content: list[ContentBlock]) -> list[ContentBlock]:
    """Return the blocks with their texts cut to the answer budget. Pictures are bounded by the upstream's max_bytes."""
    room = settings.ANSWER_BUDGET_BYTES
    fitting: list[ContentBlock] = []
    for block in content:
        if not isinstance(block, TextContent):
            fitting.append(block)
            continue
        encoded = block.text.encode()
        if len(encoded) > room:
            head = encoded[: max(room - MIN_CUT, MIN_CUT)].decode(errors="ignore")
            text = f"{head}\n… {len(block.text) - len(head)} more characters did not fit: ask for less."
            block = block.model_copy(update={"text": text})
        room = max(room - len(encoded), 0)
        fitting.append(block)
    return fitting


def _readdressed(block: ContentBlock, upstream: str) -> ContentBlock:
    if isinstance(block, ResourceLink):
        return block.model_copy(update={"uri": offered_uri(upstream, str(block.uri))})
    if isinstance(block, EmbeddedResource):
        uri = offered_uri(upstream, str(block.resource.uri))
        return block.model_copy(update={"resource": block.resource.model_copy(update={"uri": uri})})
    return block


def _own_meta(meta: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the upstream's `_meta` without keys of the protocol and of Commonplace, which it must not set here."""
    kept = {
        key: value
        for key, value in (meta or {}).items()
        if not key.startswith(("io.modelcontextprotocol/", "commonplace/")) and key != "context"
    }
    return kept or None
