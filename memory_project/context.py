from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from memories.access import caller_of


def navigation(request: HttpRequest) -> dict[str, Any]:
    """What every page shows of the person: nothing before sign-in."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated or request.path.startswith("/admin/"):
        return {}
    return {"caller": caller_of(request, door="portal")}
