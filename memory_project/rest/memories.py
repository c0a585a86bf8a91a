"""REST endpoints for memories. They accept the same tokens as MCP and use the same operations and services."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from memories import queries, responses, services
from memories.contract.budget import fit_items
from memories.contract.errors import Forbidden, Invalid
from memories.contract.operations import Operation
from memories.history import chain, history
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.operations import ListMemories, RecallMemories, Remember, Supersede
from memories.responses import PageResponse, RecallResponse
from memories.retrieval.recall import recall
from memory_project.rest.responses import CorrectedResponse, KeptResponse, OneMemoryResponse
from memory_project.rest.schema import query_parameters, request_body, response_schemas

OperationType = TypeVar("OperationType", bound=Operation)


def caller_for_tool(request: Request, tool: str, command: str = "") -> Caller:
    """Return the caller. Raises Forbidden if the persona may not use the MCP tool or command of this endpoint."""
    caller = caller_from_request(request, channel="rest")
    if not caller.may_use(tool, command):
        raise Forbidden(f"the persona {caller.persona!r} may not use {' '.join(filter(None, (tool, command)))}")
    return caller


def read_operation(operation: type[OperationType], request: Request, **fields: object) -> OperationType:
    """Read the operation from the query string of a GET request, or from the JSON body. `fields` come from the path."""
    data = request.query_params.dict() if request.method == "GET" else request.data
    if not isinstance(data, dict):
        raise Invalid("the body is not a JSON object")
    return operation.read({**data, **fields}, by_alias=False)


class Memories(APIView):
    """GET lists memories, POST stores one."""

    @extend_schema(
        operation_id="list_memories",
        parameters=query_parameters(ListMemories),
        responses=response_schemas(PageResponse),
    )
    def get(self, request: Request) -> Response:
        caller = caller_for_tool(request, "memory_manage", "list")
        operation = read_operation(ListMemories, request)
        return Response(
            responses.page_response(queries.list_memories(caller, operation), operation.limit, operation.offset)
        )

    @extend_schema(
        operation_id="remember", request=request_body(Remember), responses=response_schemas(KeptResponse, 200, 201)
    )
    def post(self, request: Request) -> Response:
        caller = caller_for_tool(request, "memory_manage", "remember")
        result = services.remember(read_operation(Remember, request), caller=caller)
        body: KeptResponse = {
            "memory": responses.memory_response(result.record),
            "existing": result.existing,
            "similar_existing": [responses.similar_response(similar) for similar in result.similar],
            "note": result.note,
        }
        return Response(body, status=status.HTTP_200_OK if result.existing else status.HTTP_201_CREATED)


class OneMemory(APIView):
    """GET returns a memory with its correction chain and its history, as far as the caller may read them."""

    @extend_schema(operation_id="show_memory", responses=response_schemas(OneMemoryResponse))
    def get(self, request: Request, record_id: UUID) -> Response:
        caller = caller_for_tool(request, "memory_manage", "get")
        record = queries.get(caller, record_id)
        changes, omitted = fit_items([responses.change_response(change) for change in history(caller, record)])
        body: OneMemoryResponse = {
            "memory": responses.memory_response(record),
            "chain": responses.memory_responses(chain(caller, record)),
            "history": changes,
            "omitted": omitted,
        }
        return Response(body)


class SupersedeMemory(APIView):
    """POST corrects a memory: a new memory replaces the old one."""

    @extend_schema(
        operation_id="supersede",
        request=request_body(Supersede, exclude="record_id"),
        responses=response_schemas(CorrectedResponse, 201),
    )
    def post(self, request: Request, record_id: UUID) -> Response:
        caller = caller_for_tool(request, "memory_manage", "supersede")
        result = services.supersede(read_operation(Supersede, request, id=record_id), caller=caller)
        body: CorrectedResponse = {
            "memory": responses.memory_response(result.record),
            "similar_existing": [responses.similar_response(similar) for similar in result.similar],
            "note": result.note,
        }
        return Response(body, status=status.HTTP_201_CREATED)


class RecallMemory(APIView):
    """POST searches memories and changes none."""

    only_reads = True

    @extend_schema(
        operation_id="recall", request=request_body(RecallMemories), responses=response_schemas(RecallResponse)
    )
    def post(self, request: Request) -> Response:
        caller = caller_for_tool(request, "memory_recall")
        operation = read_operation(RecallMemories, request)
        return Response(responses.recall_response(recall(operation, caller=caller), explain=operation.explain))
