"""Responses about documents that cite memories, the same for MCP and REST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired

from typing_extensions import TypedDict

from foundation.operations.responses import response_of
from memories.models import Citation, CitingDocument
from memories.responses import QUOTED
from memories.use.citations.queries import Cited
from memories.use.citations.services import Registered

CURRENT, OUTDATED, ACKNOWLEDGED = "current", "outdated", "acknowledged"


class CitingDocumentResponse(TypedDict):
    """A document. `changed` counts cited memories that have changed or were erased, and that you have yet to note."""

    id: str
    title: str
    address: str
    is_shared: bool
    registered_at: str
    cited: int
    changed: int
    erased: int


class CitedMemoryResponse(TypedDict):
    """A cited memory. Texts and `reason` are left out if you may no longer read it."""

    memory_id: str
    state: str
    outdated_at: str | None
    reason: NotRequired[str]
    text: NotRequired[str]
    new_text: NotRequired[str]
    replaced_by: NotRequired[str]


class CitingDetailResponse(TypedDict):
    document: CitingDocumentResponse
    memories: list[CitedMemoryResponse]
    about: str


class RegisteredResponse(TypedDict):
    """Ids of memories. `outdated` no longer stand as cited. `not_found` don't exist, or you may not read them."""

    document_id: str
    added: list[str]
    kept: list[str]
    removed: list[str]
    outdated: list[str]
    not_found: list[str]


def registered_response(registered: Registered) -> RegisteredResponse:
    return {
        "document_id": registered.document.pk.hex,
        "added": [pk.hex for pk in registered.added],
        "kept": [pk.hex for pk in registered.kept],
        "removed": [pk.hex for pk in registered.removed],
        "outdated": [pk.hex for pk in registered.outdated],
        "not_found": [pk.hex for pk in registered.not_found],
    }


def document_response(document: CitingDocument) -> CitingDocumentResponse:
    """Return the response about a document that was loaded by queries.documents."""
    return response_of(CitingDocumentResponse, document)


def detail_response(document: CitingDocument, rows: Sequence[Cited]) -> CitingDetailResponse:
    return {
        "document": document_response(document),
        "memories": [_cited_response(row) for row in rows],
        "about": QUOTED,
    }


def _cited_response(row: Cited) -> CitedMemoryResponse:
    citation = row.citation
    response: CitedMemoryResponse = {
        "memory_id": row.record_id.hex,
        "state": _state(citation),
        "outdated_at": citation.outdated_at.isoformat() if citation.outdated_at else None,
    }
    if row.record is None:
        return response
    response["reason"] = citation.reason
    response["text"] = row.text
    if row.new_text:
        response["new_text"] = row.new_text
    if row.replacement:
        response["replaced_by"] = row.replacement.pk.hex
    return response


def _state(citation: Citation) -> str:
    if citation.is_open:
        return OUTDATED
    return ACKNOWLEDGED if citation.reason else CURRENT
