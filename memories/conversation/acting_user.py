"""The user on whose behalf a call is made: the caller, or one of the users that a service acts for.

The users of a service have a namespace of their own: their rows are owned by `service@example.org#user`, which is not
an address, so no person can sign in as such a user.
"""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import ACT_FOR_USERS, Caller, require_user

MAX_OWNER = 254  # maximum length of MemoryRecord.created_by in characters


def acting_as(caller: Caller, user_id: str) -> Caller:
    """Return a caller that acts as this user, without rights and without personas. The user owns the rows it writes.

    The rest of the call runs under the database identity of a user that the caller acts for.

    Raises Forbidden if the connection has no user, or if `user_id` is not the caller's address and the token may not
    act for users. Raises Invalid if `user_id` is too long.
    """
    require_user(caller)
    user = replace(caller, is_admin=False, rights=frozenset(), personas=frozenset())
    if user_id.casefold() == caller.email.casefold():
        return user
    if ACT_FOR_USERS not in caller.rights:
        raise Forbidden(
            gettext("is not you: this connection can't act for others"), field="user_id", allowed=caller.email
        )
    owner = f"{caller.email}#{user_id}"
    if len(owner) > MAX_OWNER:
        limit = MAX_OWNER - len(caller.email) - 1
        raise Invalid(
            gettext("has %(count)s characters") % {"count": len(user_id)},
            field="user_id",
            allowed=gettext("at most %(limit)s") % {"limit": limit},
        )
    user = replace(user, email=owner)
    identity.narrow(user)
    return user
