"""The header Idempotency-Key: a repeated POST gets the answer of the first one, and nothing is done twice.

A client that lost the connection can't know whether its request was carried out, and repeats it with the same key. A
key belongs to one person and one request. Answers are kept for KEPT. Failures of the server and refusals because of too
many requests are not kept, because repeating the request is their remedy.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from foundation.database import identity
from foundation.operations.errors import Conflict, Invalid, LimitReached
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memory_project import audit
from memory_project.rest.errors import handle_exception
from memory_project.rest.models import KEPT, IdempotentAnswer
from memory_project.web.problems import MEDIA_TYPE, problem

ABANDONED = timedelta(minutes=15)  # a request that has run for longer has ended without an answer, such as by a crash
MAX_KEY = 255
REPEATED = "Idempotency-Replayed"
ONLY_ONCE = "this request was carried out, but its answer contained a secret, which is shown only once"
NOT_YOURS = "this request was carried out, but you may no longer read a memory that its answer contains"
KEPT_HEADERS = ("ETag", "Location", "Link")


def answer_once(
    request: Request, caller: Caller, perform: Callable[[], Response], *, is_secret: bool = False
) -> Response:
    """Perform the request, or return the stored answer if it repeats an earlier one.

    With `is_secret`, the answer contains a secret that is shown only once, such as a token. It is not stored; a
    repetition is told that the request was carried out.
    Raises LimitReached (422) if the key was used for another request, and Conflict if the first one is still running,
    or if its answer contains what the caller may no longer read.
    """
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        return perform()
    if len(key) > MAX_KEY or not key.isprintable():
        raise Invalid("is not a key", field="Idempotency-Key", allowed=f"1 to {MAX_KEY} printable characters")
    digest = _digest(request, caller)
    answer = _claim(caller, key, digest)
    if answer.status is not None:
        # A refusal shows nothing. Its request may name a memory that the caller could never read.
        if answer.status < 400 and _contains_hidden(caller, answer):
            raise Conflict(NOT_YOURS, field="Idempotency-Key")
        return Response(
            answer.body,
            status=answer.status,
            headers={**answer.headers, REPEATED: "true"},
            content_type=MEDIA_TYPE if answer.status >= 400 else None,
        )
    try:
        response = _performed(request, perform)
    except BaseException:
        IdempotentAnswer.objects.filter(pk=answer.pk).delete()
        raise
    if response.status_code >= 500 or response.status_code == 429:
        IdempotentAnswer.objects.filter(pk=answer.pk).delete()
    else:
        _store(answer, request, response, is_secret=is_secret and response.status_code < 400)
    return response


def _digest(request: Request, caller: Caller) -> str:
    is_json = request.content_type.startswith("application/json")
    # A file is not read into memory. Its length tells most files apart, and its import recognizes repeated rows.
    body = request._request.body if is_json else request.headers.get("Content-Length", "").encode()
    parts = [(request.method or "").encode(), request.get_full_path().encode(), caller.persona.encode(), body]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _claim(caller: Caller, key: str, digest: str) -> IdempotentAnswer:
    """Return the row of the key. The caller has to perform the request if its `status` is None."""
    now = timezone.now()
    with transaction.atomic():
        answer, is_new = IdempotentAnswer.objects.select_for_update().get_or_create(
            owner=caller.email, key=key, defaults={"request_digest": digest, "started_at": now}
        )
        if is_new:
            return answer
        if answer.started_at < now - (KEPT if answer.status is not None else ABANDONED):
            answer.request_digest = digest
            answer.started_at = now
            answer.status = None
            answer.body = None
            answer.headers = {}
            answer.record_ids = []
            answer.save()
            return answer
        if answer.request_digest != digest:
            raise LimitReached("was used for another request", field="Idempotency-Key", allowed="a new key")
        if answer.status is None:
            raise Conflict("the request with this key is still running; repeat it later", field="Idempotency-Key")
        return answer


def _contains_hidden(caller: Caller, answer: IdempotentAnswer) -> bool:
    """Return whether the answer contains a memory that the caller may not read now."""
    if not answer.record_ids:
        return False
    memories = MemoryRecord.objects.filter(pk__in=answer.record_ids)
    with identity.service("copies"):
        there = memories.count()
    return memories.visible_to(caller).count() < there


def _performed(request: Request, perform: Callable[[], Response]) -> Response:
    try:
        return perform()
    except Exception as error:
        response = handle_exception(error, {"request": request})
        if response is None:
            raise
        response.exception = True
        return response


def _store(answer: IdempotentAnswer, request: Request, response: Response, *, is_secret: bool) -> None:
    # as the client gets it: with UUIDs and times as text
    body = json.loads(json.dumps(response.data, cls=JSONEncoder))
    status = response.status_code
    if is_secret:
        body = problem(409, ONLY_ONCE, "conflict")
        status = 409
    # The request may have deleted the row, as a wipe of the person's data does. Then it stays deleted.
    IdempotentAnswer.objects.filter(pk=answer.pk).update(
        body=body,
        status=status,
        headers={name: response.headers[name] for name in KEPT_HEADERS if name in response.headers},
        record_ids=named_memories(request, body),
    )


def named_memories(request: Request, body: Any) -> list[Any]:
    """Return the ids of the memories that the request or its answer names, at any depth of the answer."""
    path = dict(request.resolver_match.kwargs) if request.resolver_match else {}
    return sorted(audit.ids_in([path, request.data, body]))[: audit.MAX_IDS]
