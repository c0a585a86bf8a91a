from __future__ import annotations

from collections.abc import Sequence

from django.apps import AppConfig

from memories.contract.toolset import TOOLS, Tool


class ConversationConfig(AppConfig):
    name = "memories.conversation"
    label = "conversation"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from memories import plugs  # noqa: PLC0415 - models first
        from memories.conversation import cache  # noqa: PLC0415 - the same
        from memories.conversation.models import (  # noqa: PLC0415 - the same
            CachedAnswer,
            CacheUse,
            UserDecision,
            WipeRequest,
        )

        owned = (CachedAnswer, CacheUse, UserDecision, WipeRequest)
        TOOLS.register("conversation", tools)
        plugs.COPIES.register("cache", cache.CacheCopies())
        plugs.CATALOG_CHANGES.register("cache", cache.forget_about)
        plugs.TRACES.register("conversation", lambda: [plugs.Trace(model, "created_by") for model in owned])


def tools() -> Sequence[Tool]:
    from memories.conversation.mcp_tools import TOOLS as conversation_tools  # noqa: PLC0415 - servers alone need it

    return conversation_tools
