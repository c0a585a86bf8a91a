from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class ConversationConfig(AppConfig):
    name = "memories.conversation"
    label = "conversation"
    verbose_name = gettext_lazy("Conversations")
    toolsets = {"conversation": "memories.conversation.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from foundation.cases.kinds import CASE_KINDS  # noqa: PLC0415 - needs loaded models
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("memories.conversation.memory_extension.ConversationMemoryExtension")
        CASE_KINDS.register("merge", "memories.conversation.consolidation.cases.MergeCases")
