"""Checks of memories, as far as the services of memories take part: an extension stores and runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.utils.translation import gettext

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories import extensions
from memories.extensions import PreparedCheck
from memories.models import MemoryRecord

NOT_ADDED = "the check was not added: update the memory with it"


def prepare_check(caller: Caller, check: Mapping[str, Any], record_id: UUID | None = None) -> PreparedCheck | None:
    """Run a check of a memory, before the transaction that stores it. Returns None if `check` is empty.

    Raises Invalid if checks are not available.
    """
    if not check:
        return None
    if prepared := extensions.prepare_check(caller, check, record_id):
        return prepared
    raise Invalid(gettext("is not available"), field="check")


def pass_on_checks(old: MemoryRecord, new: MemoryRecord, prepared: PreparedCheck | None, *, keep: bool) -> str:
    """Give a correction the checks of its predecessor, if `keep`, and its own one. Return a message."""
    if keep:
        extensions.keep_checks(old, new)
    return prepared(new) if prepared else ""
