"""Memories over REST: JSON only, the same tokens, operations and services as everywhere."""

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
from memory_project.rest.schema import answers, body_of, query_of

Ask = TypeVar("Ask", bound=Operation)


def caller_using(request: Request, tool: str) -> Caller:
    """The caller, if the persona may use the tool whose twin this address is."""
    caller = caller_from_request(request, channel="rest")
    if not caller.may_use(tool):
        raise Forbidden(f"the persona {caller.persona!r} may not use {tool}")
    return caller


def read_operation(operation: type[Ask], request: Request, **fields: object) -> Ask:
    """The operation of a body, or of the query string of a GET; `fields` are those that the address names."""
    data = request.query_params.dict() if request.method == "GET" else request.data
    if not isinstance(data, dict):
        raise Invalid("the body is not a JSON object")
    return operation.read({**data, **fields}, by_alias=False)


class Memories(APIView):
    """GET lists, POST remembers."""

    @extend_schema(operation_id="list_memories", parameters=query_of(ListMemories), responses=answers(PageResponse))
    def get(self, request: Request) -> Response:
        caller = caller_using(request, "memory_manage")
        operation = read_operation(ListMemories, request)
        return Response(
            responses.page_response(queries.list_memories(caller, operation), operation.limit, operation.offset)
        )

    @extend_schema(operation_id="remember", request=body_of(Remember), responses=answers(KeptResponse, 200, 201))
    def post(self, request: Request) -> Response:
        caller = caller_using(request, "memory_manage")
        answer = services.remember(read_operation(Remember, request), caller=caller)
        body: KeptResponse = {
            "memory": responses.memory_response(answer.record),
            "existing": answer.existing,
            "similar_existing": [responses.similar_response(similar) for similar in answer.similar],
            "note": answer.note,
        }
        return Response(body, status=status.HTTP_200_OK if answer.existing else status.HTTP_201_CREATED)


class OneMemory(APIView):
    """GET shows one memory with its correction chain and its history, as far as the caller may see them."""

    @extend_schema(operation_id="show_memory", responses=answers(OneMemoryResponse))
    def get(self, request: Request, record_id: UUID) -> Response:
        caller = caller_using(request, "memory_manage")
        record = queries.get(caller, record_id)
        changes, omitted = fit_items([responses.change_response(change) for change in history(caller, record)])
        body: OneMemoryResponse = {
            "memory": responses.memory_response(record),
            "chain": [responses.memory_response(link) for link in chain(caller, record)],
            "history": changes,
            "omitted": omitted,
        }
        return Response(body)


class SupersedeMemory(APIView):
    """POST corrects: a new memory takes the old one's place."""

    @extend_schema(
        operation_id="supersede",
        request=body_of(Supersede, besides="record_id"),
        responses=answers(CorrectedResponse, 201),
    )
    def post(self, request: Request, record_id: UUID) -> Response:
        caller = caller_using(request, "memory_manage")
        answer = services.supersede(read_operation(Supersede, request, id=record_id), caller=caller)
        similar = [responses.similar_response(near) for near in answer.similar]
        body: CorrectedResponse = {
            "memory": responses.memory_response(answer.record),
            "similar_existing": similar,
            "note": answer.note,
        }
        return Response(body, status=status.HTTP_201_CREATED)


class RecallMemory(APIView):
    """POST asks; nothing is written."""

    @extend_schema(operation_id="recall", request=body_of(RecallMemories), responses=answers(RecallResponse))
    def post(self, request: Request) -> Response:
        caller = caller_using(request, "memory_recall")
        operation = read_operation(RecallMemories, request)
        return Response(responses.recall_response(recall(operation, caller=caller), explain=operation.explain))
