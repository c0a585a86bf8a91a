"""Documents of the caller that cite memories."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django_filters import FilterSet
from typing_extensions import TypedDict

from foundation.people.caller import Caller
from memories.mcp_tools import memory_feedback, memory_manage
from memories.models import CitingDocument
from memories.use.citations import queries, services
from memories.use.citations.operations import ChangeCiting, Cite, RemoveCiting, ShowCiting
from memories.use.citations.responses import (
    CitingDetailResponse,
    CitingDocumentResponse,
    RegisteredResponse,
    detail_response,
    document_response,
    registered_response,
)
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import FlagFilter, Listing, each

TAG = "citations"


class RemovedDocumentResponse(TypedDict):
    removed: bool


class CitingFilter(FilterSet):
    has_changes = FlagFilter(method="changed", help_text="Whether something that it cites has changed.")

    def changed(self, rows: QuerySet[CitingDocument], name: str, value: bool) -> QuerySet[CitingDocument]:
        return rows.filter(Q(changed__gt=0) if value else Q(changed=0))


def _cite(caller: Caller, operation: Cite) -> RegisteredResponse:
    return registered_response(services.cite(caller, operation))


def _show(caller: Caller, operation: ShowCiting) -> CitingDetailResponse:
    document = queries.document(caller, operation.document_id)
    return detail_response(document, queries.cited_by(caller, document))


def _change(caller: Caller, operation: ChangeCiting) -> CitingDetailResponse:
    services.change(caller, operation)
    return _show(caller, ShowCiting(document_id=operation.document_id))


def _remove(caller: Caller, operation: RemoveCiting) -> RemovedDocumentResponse:
    services.remove(caller, operation)
    return {"removed": True}


LIST = Listing(
    "list_citing_documents",
    queries.documents,
    each(document_response),
    CitingDocumentResponse,
    CitingFilter,
    tool=memory_feedback.name,
    summary="List your documents that cite memories",
)
urlpatterns = [
    route(TAG, "citations/", get=LIST, post=Endpoint("cite_memories", _cite, tool=memory_feedback.name)),
    route(
        TAG,
        "citations/<id:document_id>/",
        # Both show texts of memories, as this command does.
        get=Endpoint("show_citing_document", _show, tool=memory_manage.name, command="get"),
        patch=Endpoint("change_citing_document", _change, tool=memory_manage.name, command="get"),
        delete=Endpoint("remove_citing_document", _remove, tool=memory_feedback.name),
    ),
]
