"""Facts in tests, and their corrections."""

from __future__ import annotations

from typing import Any

from foundation.people.caller import Caller
from memories import services
from memories.mcp_tools import memory_manage
from memories.models import MemoryRecord
from memories.operations import Supersede


def correct(caller: Caller, record: MemoryRecord, text: str) -> MemoryRecord:
    return services.supersede(caller, Supersede(record_id=record.pk, content=text)).record


def remember(caller: Caller, content: str = "Revenue excludes refunds.", **fields: Any) -> str:
    return str(memory_manage(caller, "remember", content=content, **fields)["id"])
