"""Text rendering of recalled and listed memories for an agent's context."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import cast

from foundation.tools.declaration import ToolResponse
from memories.models import Confidence, Status, Visibility
from memories.responses import HitResponse, MemoryResponse, PageResponse, RecallResponse, recall_response
from memories.retrieval.recall import Recall

SHORTENED = "texts with … are shortened: memory_manage get returns them whole"


def recall_answer(recall: Recall, *, explain: bool = False) -> ToolResponse[RecallResponse]:
    """Return the response of memory_recall, with its text for an agent's context."""
    response = recall_response(recall, explain=explain)
    return ToolResponse(response, text=as_text(response))


def as_text(response: RecallResponse) -> str:
    """Render a recall response as text: a line for each memory, followed by notes."""
    lines = [_line(number, hit) for number, hit in enumerate(response["memories"], 1)]
    if any(hit.get("cut") for hit in response["memories"]):
        lines.append(SHORTENED)
    if omitted := response.get("omitted"):
        lines.append(f"{omitted} more did not fit: ask for less")
    if left_out := response.get("left_out"):
        counts = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in left_out.items())
        lines.append(f"left out: {counts}")
    if note := response.get("note"):
        lines.append(f"{'degraded: ' if response.get('degraded') else ''}{note}")
    if about := response.get("about"):
        lines.append(about)
    return "\n".join(lines)


def page_answer(page: PageResponse) -> ToolResponse[PageResponse]:
    """Return a page of memories, with a line for each as its text for an agent's context."""
    first = page["offset"] + 1
    lines = [_line(number, _as_hit(memory)) for number, memory in enumerate(page["records"], first)]
    lines.append(_place(page))
    if message := page.get("message"):
        lines.append(message)
    return ToolResponse(page, text="\n".join(lines))


def _place(page: PageResponse) -> str:
    """Say which part of the list a page is, and how to go on."""
    shown = len(page["records"])
    total = page["total"]
    last = page["offset"] + shown
    if not shown:
        return f"none of {total} from offset {page['offset']} on" if total else "no memories"
    if note := page.get("note"):
        return f"{page['offset'] + 1} to {last} of {total}; {note}"
    return f"{page['offset'] + 1} to {last} of {total}" + (f": go on with offset {last}" if last < total else "")


# Values of a listed memory that need not be said.
USUAL: Mapping[str, Collection[str]] = {
    "status": [Status.ACTIVE],
    "confidence": [Confidence.MEDIUM],
    "visibility": [Visibility.PERSONA, Visibility.EVERYONE],
}


def _as_hit(memory: MemoryResponse) -> HitResponse:
    """Return the keys of a memory whose values are neither empty nor usual."""
    kept = {name: value for name, value in memory.items() if value and value not in USUAL.get(name, ())}
    return cast(HitResponse, kept)


def _line(number: int, hit: HitResponse) -> str:
    content = " ⏎ ".join(line.strip() for line in hit["content"].splitlines() if line.strip())
    names = [entity_name(urn) for urn in [*hit.get("entity_urns", []), *hit.get("detected_urns", [])]]
    author = f"{hit['created_by']}, reworded by {hit['edited_by']}" if "edited_by" in hit else hit["created_by"]
    parts = [author, hit["created_at"][:10], hit["id"]]
    parts += [f"about {', '.join(names)}"] if names else []
    parts += [f"{hit['status']}: {hit.get('stale_reason', '')}".rstrip(": ")] if "status" in hit else []
    parts += _validity(hit)
    is_changed = hit.get("changed_since_verified")
    parts += [f"verified at an earlier version by {hit['verified_by']}, changed since"] if is_changed else []
    parts += [f"check: {hit['to_verify']}"] if "to_verify" in hit else []
    parts += [f"holds for {hit['holds_for']}"] if "holds_for" in hit else []
    parts += [f"its check {hit['check']}"] if "check" in hit else []
    parts += ["distant match"] if "match" in hit else []
    parts += [hit["visibility"]] if "visibility" in hit else []
    parts += [f"confidence {hit['confidence']}"] if "confidence" in hit else []
    parts += [f"score {hit['score']}"] if "score" in hit else []
    return f"{number}. {'… ' if hit.get('cut') else ''}{content}{' …' if hit.get('cut') else ''} ({'; '.join(parts)})"


def _validity(hit: HitResponse) -> list[str]:
    if validity := hit.get("validity"):
        since = min(filter(None, [hit.get("valid_until"), hit.get("condition_ended_at")]), default="")
        return [f"expired on {since[:10]}" if validity == "expired" else f"not valid before {hit['valid_from'][:10]}"]
    parts = [f"valid until {hit['valid_until'][:10]}"] if "valid_until" in hit else []
    return parts + ([f"valid only until this ends: {hit['valid_while']}"] if "valid_while" in hit else [])


def entity_name(urn: str) -> str:
    """Return the readable part of a URN, for example `sales.orders` for a table."""
    inner = urn.partition("(")[2].split(",")
    return inner[1] if len(inner) > 1 else urn.rpartition(":")[2]
