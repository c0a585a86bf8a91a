"""Versions of objects: ETag, If-Match and If-None-Match (RFC 9110).

A version is the token that pages and tools call `seen`. The ETag of a GET adds a digest of the body after a "-",
because a body has parts that change without the object: its validity with time, its chain and its readers' marks.
If-Match compares versions only, and If-None-Match the whole. A change with If-Match is refused with 412 if the object
has changed meanwhile, and the refusal carries the current state. The comparison and the change are one transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from rest_framework.request import Request

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.people.caller import Caller
from memory_project.rest.errors import PreconditionMissing, Stale

TAG = re.compile(r'(?P<weak>W/)?"(?P<opaque>[^"]*)"')
ANY = "*"


@dataclass(frozen=True)
class RowVersion:
    """Functions for the version of the object that a path names."""

    token: Callable[[Caller, Mapping[str, Any]], str]  # raises NotFound
    unchanged: Callable[[Caller, Mapping[str, Any], str], AbstractContextManager[None]]  # raises Conflict when entered
    current: Callable[[Caller, Mapping[str, Any]], Any]  # the body of a 412

    def etag(self, caller: Caller, path: Mapping[str, Any]) -> str:
        return f'"{self.token(caller, path)}"'

    def etag_after(self, caller: Caller, path: Mapping[str, Any]) -> dict[str, str]:
        """Return the header after a change, which may have erased the object or hidden it from the caller."""
        try:
            return {"ETag": self.etag(caller, path)}
        except NotFound:
            return {}


def of_body(etag: str, body: Any) -> str:
    """Return the ETag of a response: the version with a digest of the body."""
    digest = sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
    return f'{etag[:-1]}-{digest[:16]}"'


def check_none_match(request: Request, etag: str) -> bool:
    """Return whether the client has this response already."""
    header = request.headers.get("If-None-Match", "")
    return bool(header) and (header.strip() == ANY or etag.strip('"') in _tags(header, "If-None-Match"))


@contextmanager
def matching(
    version: RowVersion | None, caller: Caller, request: Request, path: Mapping[str, Any], *, is_required: bool
) -> Iterator[None]:
    """Run the block in a transaction with the object locked, if the request names a version by If-Match.

    Raises Stale (412) if the object is in another version, and PreconditionMissing (428) if the header is required.
    """
    header = request.headers.get("If-Match", "").strip() if request.method not in ("GET", "HEAD") else ""
    if version is None or not header:
        if is_required:
            raise PreconditionMissing(
                "is missing", field="If-Match", allowed="the ETag of the object, or * to change any version"
            )
        yield
        return
    if header == ANY:
        yield
        return
    # A weak tag never matches (RFC 9110, 13.1.1).
    tags = [tag.partition("-")[0] for tag in _tags(header, "If-Match", strong=True)]
    token = version.token(caller, path)
    with ExitStack() as stack:
        changed = "has changed since you saw it"
        try:
            stack.enter_context(version.unchanged(caller, path, token if token in tags else next(iter(tags), "")))
        except Conflict as error:
            changed = error.message
            token = version.token(caller, path)
            tags = []
        except Invalid:  # a tag that is not one of ours
            tags = []
        if token not in tags:
            raise Stale(changed, current=version.current(caller, path), etag=f'"{token}"')
        yield


def _tags(header: str, name: str, *, strong: bool = False) -> list[str]:
    parts = header.split(",")
    matches = [TAG.fullmatch(part.strip()) for part in parts]
    if not all(matches):
        raise Invalid("is not a list of ETags", field=name, allowed='"…", as the header ETag has it')
    return [match["opaque"] for match in matches if match and not (strong and match["weak"])]
