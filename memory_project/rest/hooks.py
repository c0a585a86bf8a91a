"""Endpoints for the hooks of agents: programs that an agent's client runs at the start of a session, for each prompt
and beside each tool call.
"""

from __future__ import annotations

from django.urls import URLPattern

TAG = "hooks"

urlpatterns: list[URLPattern] = []
