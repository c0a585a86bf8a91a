"""The REST API's memories: JSON only, the same tokens and services as everywhere."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from rest_framework import exceptions, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView, exception_handler

from memories import queries, services, shapes
from memories.access import Caller, caller_of
from memories.contract.budget import within_budget
from memories.contract.errors import DomainError, Forbidden, Invalid, LimitReached, check_choice, of_database
from memories.history import chain, history
from memories.models import Status
from memories.retrieval.search import Filters, recall
from memories.validation import check_page
from memory_project.rest.serializers import ListInput, RecallInput, RememberInput, SupersedeInput

LIST_MAX = 100


def answer_error(error: Exception, context: dict[str, Any]) -> Response | None:
    """Every error as {"error", "code"}, as the MCP tools answer it."""
    if isinstance(error, exceptions.ValidationError):
        fault, field = _first_fault(error.detail)
        error = Invalid(fault, field=field)
    if isinstance(error, DatabaseError):
        error = of_database(error) or error
    if isinstance(error, RecursionError):
        error = Invalid("the body is nested too deep")
    if isinstance(error, UnicodeError):
        error = Invalid("the body contains half a surrogate pair", allowed="Unicode text")
    if isinstance(error, RequestDataTooBig):
        error = LimitReached("the body is larger than this server takes")
    if isinstance(error, DomainError):
        return Response({"error": error.message, "code": error.code}, status=error.status)
    response = exception_handler(error, context)
    if response is not None:
        code = {401: "forbidden", 403: "forbidden", 404: "not_found", 429: "limit"}.get(response.status_code, "invalid")
        detail = getattr(error, "detail", str(error))
        response.data = {"error": str(detail), "code": code}
    return response


def _first_fault(detail: Any, field: str = "") -> tuple[str, str]:
    """Of DRF's nested details, the first: what is wrong, and where."""
    if isinstance(detail, dict):
        name, inner = next(iter(detail.items()))
        return _first_fault(inner, f"{field}.{name}" if field else str(name))
    if isinstance(detail, list) and detail:
        return _first_fault(detail[0], field)
    return str(detail), field


def caller_using(request: Request, tool: str) -> Caller:
    """The caller, if the persona may use the tool whose twin this address is."""
    caller = caller_of(request, door="rest")
    if not caller.may_use(tool):
        raise Forbidden(f"the persona {caller.persona!r} may not use {tool}")
    return caller


class Memories(APIView):
    """GET lists, POST remembers."""

    def get(self, request: Request) -> Response:
        caller = caller_using(request, "memory_manage")
        given = _cleaned(ListInput, request.query_params)
        limit, offset = check_page(given["limit"], given["offset"], LIST_MAX), given["offset"]
        filters = Filters(
            dimension=given["dimension"],
            category=given["category"],
            entity=given["entity_urn"],
            statuses=[check_choice("status", given["status"], Status.values)],
        )
        rows = queries.newest(caller, filters)
        records, omitted = within_budget([shapes.memory_shape(row) for row in rows[offset : offset + limit]])
        answer = {
            "records": records,
            "total": rows.count(),
            "limit": limit,
            "offset": offset,
            "omitted": omitted,
        }
        return Response(answer)

    def post(self, request: Request) -> Response:
        caller = caller_using(request, "memory_manage")
        answer = services.remember(caller=caller, **_cleaned(RememberInput, request.data))
        body = {
            "memory": shapes.memory_shape(answer.record),
            "existing": answer.existing,
            "similar_existing": [shapes.similar_shape(similar) for similar in answer.similar],
            "note": answer.note,
        }
        return Response(body, status=status.HTTP_200_OK if answer.existing else status.HTTP_201_CREATED)


class OneMemory(APIView):
    """GET shows one memory with its correction chain and its history, as far as the caller may see them."""

    def get(self, request: Request, record_id: UUID) -> Response:
        caller = caller_using(request, "memory_manage")
        record = queries.one(caller, record_id)
        changes, omitted = within_budget([shapes.change_shape(change) for change in history(caller, record)])
        body = {
            "memory": shapes.memory_shape(record),
            "chain": [shapes.memory_shape(link) for link in chain(caller, record)],
            "history": changes,
            "omitted": omitted,
        }
        return Response(body)


class SupersedeMemory(APIView):
    """POST corrects: a new memory takes the old one's place."""

    def post(self, request: Request, record_id: UUID) -> Response:
        caller = caller_using(request, "memory_manage")
        answer = services.supersede(caller=caller, record_id=record_id, **_cleaned(SupersedeInput, request.data))
        similar = [shapes.similar_shape(near) for near in answer.similar]
        body = {"memory": shapes.memory_shape(answer.record), "similar_existing": similar, "note": answer.note}
        return Response(body, status=status.HTTP_201_CREATED)


class RecallMemories(APIView):
    """POST asks; nothing is written."""

    def post(self, request: Request) -> Response:
        caller = caller_using(request, "memory_recall")
        given = _cleaned(RecallInput, request.data)
        filters = Filters(dimension=given.pop("dimension"), tags=given.pop("tags"))
        as_of = shapes.moment("as_of", given.pop("as_of"))
        return Response(shapes.recall_shape(recall(caller=caller, filters=filters, as_of=as_of, **given)))


def _cleaned(serializer: Any, data: Any) -> dict[str, Any]:
    if not hasattr(data, "keys"):
        raise Invalid("the body is not a JSON object")
    checked = serializer(data=data)
    if unknown := sorted(set(data) - set(checked.fields)):
        raise Invalid("is unknown here", field=ascii(unknown[0])[1:101].strip("'"), allowed=", ".join(checked.fields))
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)
