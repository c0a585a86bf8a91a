"""Callers with a connection of their own, on which memories are attached once."""

from __future__ import annotations

from dataclasses import replace

from foundation.people.caller import Caller


def with_connection(caller: Caller, connection: str) -> Caller:

    return replace(caller, connection=connection)
