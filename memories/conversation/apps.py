from __future__ import annotations

from django.apps import AppConfig


class ConversationConfig(AppConfig):
    name = "memories.conversation"
    label = "conversation"
