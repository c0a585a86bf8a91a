from __future__ import annotations

from collections.abc import Sequence

from django.apps import AppConfig

from memories.contract.tools import TOOLS, Tool


class ConversationConfig(AppConfig):
    name = "memories.conversation"
    label = "conversation"
    verbose_name = "Conversations"

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - models first
        from memories.conversation import cache  # noqa: PLC0415 - the same
        from memories.conversation.models import (  # noqa: PLC0415 - the same
            CachedAnswer,
            CacheUse,
            UserDecision,
            WipeRequest,
        )

        owned = (CachedAnswer, CacheUse, UserDecision, WipeRequest)
        TOOLS.register("conversation", tools)
        extensions.COPIES.register("cache", cache.CacheCopies())
        extensions.CATALOG_CHANGES.register("cache", cache.forget_about)
        extensions.TRACES.register(
            "conversation", lambda: [extensions.PersonalDataColumn(model, "created_by") for model in owned]
        )


def tools() -> Sequence[Tool]:
    from memories.conversation.mcp_tools import TOOLS as conversation_tools  # noqa: PLC0415 - servers alone need it

    return conversation_tools
