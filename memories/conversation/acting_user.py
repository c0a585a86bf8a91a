"""Whom a call is for: the caller, or one of the users that a service acts for.

A service's users live in its own namespace: their rows belong to `service@example.org#user`, which is nobody's address.
"""

from __future__ import annotations

from dataclasses import replace

from memories.contract.errors import Forbidden, Invalid
from memories.identity.caller import ACT_FOR_USERS, Caller

MAX_OWNER = 254  # characters of MemoryRecord.created_by


def acting_as(caller: Caller, user_id: str) -> Caller:
    """The caller in the place of this user, who owns what is written and sees only their own. Raises Forbidden."""
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")
    alone = replace(caller, is_admin=False, rights=frozenset(), personas=frozenset())
    if user_id.casefold() == caller.email.casefold():
        return alone
    if ACT_FOR_USERS not in caller.rights:
        raise Forbidden("is not you", field="user_id", allowed=caller.email)
    owner = f"{caller.email}#{user_id}"
    if len(owner) > MAX_OWNER:
        limit = MAX_OWNER - len(caller.email) - 1
        raise Invalid(f"has {len(user_id)} characters", field="user_id", allowed=f"at most {limit}")
    return replace(alone, email=owner)
